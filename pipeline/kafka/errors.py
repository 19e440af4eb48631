"""What can be wrong with a cluster, each in words for the person who runs it."""

from collections.abc import Sequence
from dataclasses import dataclass

from pipeline.hints import command, start_broker
from pipeline.settings import Settings


class ClusterError(Exception):
    """The cluster cannot be used as it is."""


class Unreachable(ClusterError):
    """No broker answers."""

    def __init__(self, settings: Settings) -> None:
        start = start_broker(settings)
        super().__init__(
            f"no Kafka answers at {', '.join(settings.bootstrap_servers)}; set SBIC_BROKER to the "
            f"address of one" + (f", or start one with: {start}" if start else "")
        )


class MissingTopic(ClusterError):
    """A topic that a tool needs is not there."""

    def __init__(self, topic: str, settings: Settings) -> None:
        super().__init__(
            f"Kafka at {', '.join(settings.bootstrap_servers)} has no topic {topic}; "
            f"create it with: {command(settings, 'topics')}"
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
