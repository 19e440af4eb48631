"""Requests for tasks that wait for their assignments, several of a worker at once if need be."""

import asyncio
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from orjson import loads

from pipeline.records.assignments import parse_assignment, place_of

Record = dict[str, Any]


class At(NamedTuple):
    """Where a request is on its topic."""

    partition: int
    offset: int


@dataclass(eq=False)
class Asked:
    """A request for so many tasks; `answered` has its assignments, a refusal last of all."""

    worker: str
    count: int
    answered: "asyncio.Future[list[Record]]"
    records: dict[int, Record] = field(default_factory=dict)

    def add(self, number: int, record: Record) -> None:
        """Take an assignment, by its number; the first of a number holds."""
        self.records.setdefault(number, record)
        refused = record["task"] is None
        if (refused or len(self.records) == self.count) and not self.answered.done():
            self.answered.set_result(self.in_order())

    def in_order(self) -> list[Record]:
        """The assignments that have come."""
        return [self.records[number] for number in sorted(self.records)]


@dataclass
class _Unplaced:
    """Requests of a worker that Kafka has not acknowledged, and what came for them meanwhile."""

    requests: int = 0
    early: list[tuple[At, int, Record]] = field(default_factory=list)


class OpenRequests:
    """Finds the request that an assignment answers: its id has the place of the request.

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
        self._unplaced: dict[str, _Unplaced] = {}

    def begin(self, worker: str, count: int) -> Asked:
        """A request that is about to be sent; `placed` or `not_sent` has to follow."""
        self._unplaced.setdefault(worker, _Unplaced()).requests += 1
        return Asked(worker, count, asyncio.get_running_loop().create_future())

    def placed(self, asked: Asked, at: At) -> None:
        """Kafka has the request here."""
        self._placed[at] = asked
        for place, number, record in self._unplaced[asked.worker].early:
            if place == at:
                asked.add(number, record)
        self._leave(asked)

    def not_sent(self, asked: Asked) -> None:
        """Kafka does not have the request, as far as anybody knows."""
        self._leave(asked)

    def _leave(self, asked: Asked) -> None:
        unplaced = self._unplaced[asked.worker]
        unplaced.requests -= 1
        if not unplaced.requests:
            del self._unplaced[asked.worker]

    def close(self, at: At) -> None:
        """Nobody waits for this one any more."""
        self._placed.pop(at, None)

    def learn(self, value: bytes | None) -> None:
        """Take the value of a record of the assignments topic."""
        try:
            assignment = parse_assignment(value)
            source, partition, offset, number = place_of(assignment.id)
        except ValueError:
            return  # not an sbic record: ignore
        at = At(partition, offset)
        is_known = at in self._placed or assignment.worker in self._unplaced
        if assignment.ended or source or not is_known:  # or a label was the request
            return
        record = loads(value)  # type: ignore[arg-type]  # it was just parsed
        if at in self._placed:
            self._placed[at].add(number, record)
        else:
            self._unplaced[assignment.worker].early.append((at, number, record))
