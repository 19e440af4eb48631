"""The interface of both transports, the gateway's HTTP and Kafka, their types and errors."""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol


class ClientError(Exception):
    """A request to the pipeline failed."""


class Unreachable(ClientError):
    """Nothing answers at the address, or the gateway has no Kafka."""


class NotAllowed(ClientError):
    """The token is missing or wrong, or this user is not authorized in Kafka."""


class TimedOut(ClientError):
    """The pipeline did not answer in time."""


@dataclass(frozen=True)
class LabelProblem:
    """What is wrong with one of the labels given."""

    index: int
    reason: str


class BadLabels(ClientError):
    """Invalid labels; no label of the same request was sent.

    >>> print(BadLabels([LabelProblem(3, "'task' is empty"), LabelProblem(7, "'task' is empty")]))
    label 3: 'task' is empty (and 1 more are bad)
    """

    def __init__(self, problems: Sequence[LabelProblem]) -> None:
        first, more = problems[0], len(problems) - 1
        others = f" (and {more} more are bad)" if more else ""
        super().__init__(f"label {first.index}: {first.reason}{others}")
        self.problems = list(problems)


Label = Mapping[str, Any]
"""A label as in the labels topic: `{"task": "t1", "worker": "ann", "label": 1}`."""

Posterior = dict[str, Any]
"""A posterior as in the posteriors topic."""


class Place(NamedTuple):
    """The partition and offset of a label; posteriors that count it have it in their `sources`.

    Kafka does not always report the offset: then it is unknown whether the label is counted.
    """

    partition: int
    offset: int | None

    def is_counted(self, posterior: Posterior) -> bool:
        """Whether the posterior of the label's task includes the label.

        >>> Place(3, 17).is_counted({"sources": {"3": 17}})
        True
        """
        counted = posterior.get("sources", {}).get(str(self.partition), -1)
        return self.offset is None or bool(counted >= self.offset)


class Assignment(NamedTuple):
    """The task that a worker should answer next, or the reason why there is none.

    `expires_at` is when the lease of the task ends, in milliseconds since 1970.
    """

    task: str | None
    reason: str | None = None
    id: str | None = None
    expires_at: int | None = None


class ClientTransport(Protocol):
    """A connection to the pipeline; its methods raise `ClientError`."""

    async def send(self, labels: Sequence[Label]) -> list[Place]:
        """Send labels; returns the place of each once all are acknowledged."""

    async def next_task(self, worker: str) -> Assignment:
        """Request a task."""

    async def posterior(self, task: str) -> Posterior | None:
        """Return the current posterior of a task."""

    def watching(self) -> AbstractAsyncContextManager[AsyncIterator[Posterior]]:
        """Posteriors as they change, from when the context is entered."""

    async def close(self) -> None:
        """Close all connections."""
