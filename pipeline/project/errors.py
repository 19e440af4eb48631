"""Why a project cannot be used in some way, and what to do."""

from collections.abc import Iterable, Sequence

from pipeline.kafka.errors import ClusterError


class Refusal(ClusterError):
    """A line for each thing that is wrong, and what to do about all of them."""

    def __init__(self, lines: Sequence[str], way_out: str) -> None:
        super().__init__("; ".join([*lines, way_out]))
        self.lines = lines
        self.way_out = way_out


class NoProject(ClusterError):
    """There is no project with this prefix."""

    def __init__(self, prefix: str, addresses: Sequence[str]) -> None:
        super().__init__(
            f"Kafka at {', '.join(addresses)} has no project {prefix}; "
            f"create it with: sbic topics --prefix {prefix}"
        )


class Unfinished(ClusterError):
    """A command that recreates topics was started, and has not finished."""

    def __init__(self, prefix: str, state: str) -> None:
        command = {"recounting": "recount", "resetting": "reset", "deleting": "delete"}[state]
        super().__init__(
            f"the project {prefix} is {state}: wait until that is done, or, if the command was "
            f"interrupted, complete it with: sbic project {command} --prefix {prefix}"
        )


class ReplacedTopics(ClusterError):
    """Topics are not those that the project was created with."""

    def __init__(self, prefix: str, missing: Iterable[str], other: Iterable[str]) -> None:
        self.other = list(other)
        found = [
            *(f"{name} was deleted" for name in missing),
            *(f"{name} was deleted and recreated" for name in self.other),
        ]
        super().__init__(
            f"{', '.join(found)}, not by sbic: nothing is counted until everything is recomputed "
            f"from labels and tasks with: sbic project recount --prefix {prefix}"
        )


class Conflict(ClusterError):
    """Another command has changed the project at the same time."""

    def __init__(self, prefix: str) -> None:
        super().__init__(
            f"another command has just changed the project {prefix}: check it with "
            f"sbic project show --prefix {prefix}, and try again"
        )
