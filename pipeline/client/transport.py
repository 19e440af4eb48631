"""What both ways to the pipeline can do: the gateway's HTTP, and Kafka."""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, NamedTuple, Protocol

Label = Mapping[str, Any]
"""A label as the topic has it: `{"task": "t1", "worker": "ann", "label": 1}`."""

Posterior = dict[str, Any]
"""What is known of a task, as the topic of posteriors has it."""


class Place(NamedTuple):
    """Where a label is in its topic; posteriors that count it have it in their `sources`.

    Kafka may not say at which offset: then it cannot be told whether the label is counted.
    """

    partition: int
    offset: int | None

    def is_counted(self, posterior: Posterior) -> bool:
        """Whether the posterior of the label's task has dealt with it.

        >>> Place(3, 17).is_counted({"sources": {"3": 17}})
        True
        """
        counted = posterior.get("sources", {}).get(str(self.partition), -1)
        return self.offset is None or bool(counted >= self.offset)


class Assignment(NamedTuple):
    """The task that a worker is to answer next; without one, `reason` says why there is none.

    `expires_at` is when the task is given to others, in milliseconds since 1970.
    """

    task: str | None
    reason: str | None = None
    id: str | None = None
    expires_at: int | None = None


class Transport(Protocol):
    """A way to the pipeline; its methods raise `ClientError`."""

    async def send(self, labels: Sequence[Label]) -> list[Place]:
        """Send labels, and return where each is when Kafka has acknowledged them all."""

    async def next_task(self, worker: str) -> Assignment:
        """Ask for a task."""

    async def posterior(self, task: str) -> Posterior | None:
        """What is known of a task now."""

    def watching(self) -> AbstractAsyncContextManager[AsyncIterator[Posterior]]:
        """Posteriors as they change, from the moment on when the context is entered."""

    async def close(self) -> None:
        """Close all connections."""
