"""Requests tasks on Kafka, and waits for their assignments."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from orjson import loads

from sbic.kafka.errors import Refused
from sbic.kafka.reader import Reader, reading
from sbic.kafka.writer import At, Writer, writing
from sbic.project.settings import Settings
from sbic.project.topics import Topics
from sbic.wire.assignments import encode_request, parse_assignment
from sbic.wire.partitions import Row

Assigned = dict[str, Any]
"""The value of a record of the assignments topic."""


@dataclass(eq=False)
class Asked:
    """A request for `count` tasks; `answered` holds its assignments, with any refusal last."""

    worker: str
    count: int
    answered: "asyncio.Future[list[Assigned]]"
    records: dict[int, Assigned] = field(default_factory=dict)

    def add(self, number: int, record: Assigned) -> None:
        """Add an assignment under its number; a repeated number is ignored."""
        self.records.setdefault(number, record)
        refused = record["task"] is None
        if (refused or len(self.records) == self.count) and not self.answered.done():
            self.answered.set_result(self.in_order())

    def fail(self, error: Exception) -> None:
        """Raise an error to the one that waits."""
        if not self.answered.done():
            self.answered.set_exception(error)

    def in_order(self) -> list[Assigned]:
        """Return the assignments received so far, in order of their numbers."""
        return [self.records[number] for number in sorted(self.records)]


class _Early(NamedTuple):
    """An assignment that arrived before its request was acknowledged."""

    at: At
    number: int
    record: Assigned


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
        self._failure: Exception | None = None

    def fail(self, error: Exception) -> None:
        """Raise an error to all who wait, and to all who will: no more assignments are read."""
        self._failure = error
        for asked in self._placed.values():
            asked.fail(error)

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
        if self._failure is not None:
            asked.fail(self._failure)

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
        except ValueError:
            return  # not an sbic record: ignore
        partition, offset, number, source = assignment.id
        at = At(partition, offset)
        is_known = at in self._placed or assignment.worker in self._unacknowledged
        if assignment.ended or source or not is_known:  # a source: a label was the request
            return
        record = loads(value)  # type: ignore[arg-type]  # it was just parsed
        if at in self._placed:
            self._placed[at].add(number, record)
        else:
            self._unacknowledged[assignment.worker].early.append(_Early(at, number, record))


# Requests tasks for any number of workers at once.


PATIENCE_SECONDS = 60  # longer than it takes another instance to take over

Send = Callable[[str, Sequence[Row]], Awaitable[list[At]]]


class Asker:
    """Publishes requests, and waits for their assignments; `follow` has to run meanwhile."""

    def __init__(self, topics: Topics, send: Send, assignments: Reader, patience: float) -> None:
        self._topic = topics.requests.name
        self._send = send
        self._assignments = assignments
        self._patience = patience
        self._requests = OpenRequests()

    async def follow(self) -> None:
        """Read the assignments until cancelled; an error is raised to those who wait, too."""
        try:
            async for records in self._assignments.follow():
                for record in records:
                    self._requests.learn(record.value)
        except Exception as error:
            self._requests.fail(error)
            raise

    async def ask(self, worker: str, count: int = 1) -> list[Assigned]:
        """Request `count` tasks; returns the assignments that arrived in time, any refusal last."""
        asked = self._requests.begin(worker, count)
        try:
            row = Row(worker.encode(), encode_request(worker, count))
            (at,) = await self._send(self._topic, [row])
            if at.offset is None:
                raise Refused("Kafka received the request twice")
        except BaseException:
            self._requests.not_sent(asked)
            raise
        self._requests.placed(asked, at)
        try:
            async with asyncio.timeout(self._patience):
                return await asked.answered
        except TimeoutError:
            return asked.in_order()
        finally:
            self._requests.close(at)


@asynccontextmanager
async def asking(settings: Settings, writer: Writer | None = None) -> AsyncIterator[Asker]:
    """Connect an `Asker`, with a writer of its own unless it gets one."""
    topics = Topics(settings)
    async with AsyncExitStack() as stack:
        if writer is None:
            writer = await stack.enter_async_context(writing(settings, topics.requests))
        assignments = await stack.enter_async_context(
            reading(settings, topics.assignments.name, from_start=False)
        )
        asker = Asker(topics, writer.send, assignments, PATIENCE_SECONDS)
        following = asyncio.create_task(asker.follow())
        try:
            yield asker
        finally:
            following.cancel()
            await asyncio.gather(following, return_exceptions=True)
