"""What can be wrong with a cluster, each in words for the person who runs it."""

from collections.abc import Sequence
from dataclasses import dataclass


class ClusterError(Exception):
    """The cluster cannot be used as it is."""


class Unreachable(ClusterError):
    """No broker answers."""

    def __init__(self, addresses: Sequence[str]) -> None:
        super().__init__(
            f"no Kafka answers at {', '.join(addresses)}; set SBIC_BROKER to the address of one, "
            f"or start one with: sbic broker"
        )


class MissingTopic(ClusterError):
    """A topic that a tool needs is not there."""

    def __init__(self, topic: str, addresses: Sequence[str]) -> None:
        prefix = topic.rpartition(".")[0]
        super().__init__(
            f"Kafka at {', '.join(addresses)} has no topic {topic}; "
            f"create it with: sbic topics --prefix {prefix}"
        )


class Refused(ClusterError):
    """The cluster answers, and does not do what it is asked for."""


@dataclass(frozen=True)
class Mismatch:
    """One thing about a topic that is not as it must be."""

    topic: str
    has: str
    needs: str

    def __str__(self) -> str:
        return f"{self.topic} has {self.has} and needs {self.needs}"


class WrongTopics(ClusterError):
    """Topics of these names exist, and are not as they must be."""

    def __init__(self, mismatches: Sequence[Mismatch]) -> None:
        super().__init__("; ".join(map(str, mismatches)))
        self.mismatches = mismatches
