"""Requests in flight, matched with their assignments; a worker may have several at once."""

import asyncio
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from orjson import loads

from pipeline.records.assignments import parse_assignment, place_of

Record = dict[str, Any]


class At(NamedTuple):
    """The partition and offset of a request."""

    partition: int
    offset: int


@dataclass(eq=False)
class Asked:
    """A request for `count` tasks; `answered` holds its assignments, with any refusal last."""

    worker: str
    count: int
    answered: "asyncio.Future[list[Record]]"
    records: dict[int, Record] = field(default_factory=dict)

    def add(self, number: int, record: Record) -> None:
        """Add an assignment under its number; a repeated number is ignored."""
        self.records.setdefault(number, record)
        refused = record["task"] is None
        if (refused or len(self.records) == self.count) and not self.answered.done():
            self.answered.set_result(self.in_order())

    def in_order(self) -> list[Record]:
        """The assignments received so far, in order of their numbers."""
        return [self.records[number] for number in sorted(self.records)]


class _Early(NamedTuple):
    """An assignment that arrived before its request was acknowledged."""

    at: At
    number: int
    record: Record


@dataclass
class _Unacknowledged:
    """A worker's requests that Kafka has not acknowledged, and their early assignments."""

    requests: int = 0
    early: list[_Early] = field(default_factory=list)


class OpenRequests:
    """Finds the request that an assignment answers: its id has the request's partition and offset.

    An assignment may be read before Kafka's acknowledgement of the request:

    >>> async def example():
    ...     requests = OpenRequests()
    ...     first, second = requests.begin("ann", 1), requests.begin("ann", 1)
    ...     requests.learn(b'{"worker":"ann","task":"t2","id":"3-42-0","expires_at":9}')
    ...     requests.placed(first, At(3, 41))
    ...     requests.placed(second, At(3, 42))
    ...     requests.learn(b'{"worker":"ann","task":"t1","id":"3-41-0","expires_at":9}')
    ...     return [(await asked.answered)[0]["task"] for asked in (first, second)]
    >>> asyncio.run(example())
    ['t1', 't2']
    """

    def __init__(self) -> None:
        self._placed: dict[At, Asked] = {}
        self._unacknowledged: dict[str, _Unacknowledged] = {}

    def begin(self, worker: str, count: int) -> Asked:
        """Open a request that is about to be sent; call `placed` or `not_sent` afterwards."""
        self._unacknowledged.setdefault(worker, _Unacknowledged()).requests += 1
        return Asked(worker, count, asyncio.get_running_loop().create_future())

    def placed(self, asked: Asked, at: At) -> None:
        """Record where Kafka has acknowledged the request."""
        self._placed[at] = asked
        for early in self._unacknowledged[asked.worker].early:
            if early.at == at:
                asked.add(early.number, early.record)
        self._forget_unacknowledged(asked)

    def not_sent(self, asked: Asked) -> None:
        """Give up a request that was not acknowledged."""
        self._forget_unacknowledged(asked)

    def _forget_unacknowledged(self, asked: Asked) -> None:
        unacknowledged = self._unacknowledged[asked.worker]
        unacknowledged.requests -= 1
        if not unacknowledged.requests:
            del self._unacknowledged[asked.worker]

    def close(self, at: At) -> None:
        """Close a request: later assignments for it are ignored."""
        self._placed.pop(at, None)

    def learn(self, value: bytes | None) -> None:
        """Process the value of a record of the assignments topic."""
        try:
            assignment = parse_assignment(value)
            source, partition, offset, number = place_of(assignment.id)
        except ValueError:
            return  # not an sbic record: ignore
        at = At(partition, offset)
        is_known = at in self._placed or assignment.worker in self._unacknowledged
        if assignment.ended or source or not is_known:  # a source: a label was the request
            return
        record = loads(value)  # type: ignore[arg-type]  # it was just parsed
        if at in self._placed:
            self._placed[at].add(number, record)
        else:
            self._unacknowledged[assignment.worker].early.append(_Early(at, number, record))
