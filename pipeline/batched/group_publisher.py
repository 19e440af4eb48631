"""Publishes in groups: while one group is on its way to Kafka, the next one fills.

At a low rate every label is published at once; at a high one, or on a slow broker, groups grow.
An agent that waited for each of its batches would wait once for every partition.
"""

import asyncio
from collections.abc import Callable
from time import monotonic
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from mode import Service

from pipeline.batched.batch import Batch
from pipeline.batched.fence import PutOut
from pipeline.batched.producer import BatchProducer, Offsets, Outbox
from pipeline.batched.stop import abort

TURN_SECONDS = 0.005
NOTHING = Outbox()


def _leave_it(_outbox: Outbox) -> None:
    """Nothing is to be done with it."""


class Group(Protocol):
    """What an agent gathers until it is published."""

    is_full: bool


class Publication(NamedTuple):
    """A group, ready to be published.

    `changelog` is sent once `before` is acknowledged, and `outputs` once `changelog` is, together
    with the `changelog` of the next publication. At the end `published` is called with the offsets
    and the seconds since the group's first record was taken.
    """

    changelog: Outbox
    published: Callable[[Offsets, float], None]
    before: Outbox = NOTHING
    outputs: Outbox = NOTHING


G = TypeVar("G", bound=Group)


class GroupPublisher(Service, Generic[G]):
    """Publishes one group after the other, and then says that their batches are finished."""

    def __init__(
        self,
        producer: BatchProducer,
        new_group: Callable[[], G],
        pack: Callable[[G], Publication],
        drop: Callable[[Outbox], None] = _leave_it,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.producer = producer
        self.new_group = new_group
        self.pack = pack
        self.drop = drop  # takes what a fenced producer has not published
        self.writers: list[Callable[[Outbox, Offsets], None]] = []
        self.filling = new_group()
        self.batches: list[Batch] = []
        self.begun: float | None = None  # when the first record of the group was taken
        self.owed: tuple[Publication, list[Batch], float] | None = None
        self.in_a_hurry = False  # what could go out later has to go out now
        self.turn_ends = 0.0
        self.notified = asyncio.Event()
        self.emptied = asyncio.Event()
        self.idle = asyncio.Event()
        self.idle.set()

    async def on_start(self) -> None:
        """Connect the producer."""
        await self.add_runtime_dependency(self.producer)

    async def acquire(self) -> G:
        """The group that is being filled, once it has room; others get a turn now and then.

        Not at every call: then a group would go out with the first partition of a batch alone.
        """
        if monotonic() > self.turn_ends:
            await asyncio.sleep(0)
            self.turn_ends = monotonic() + TURN_SECONDS
        while self.filling.is_full:
            self.emptied.clear()
            await self.emptied.wait()
        if self.begun is None:
            self.begun = monotonic()
        return self.filling

    def notify(self, batch: Batch | None = None) -> None:
        """Something is in the group; with a batch: all of that has been loaded."""
        if batch is not None:
            self.batches.append(batch)
        self.idle.clear()
        self.notified.set()

    async def wait_idle(self) -> None:
        """Publish all there is, and wait until it is acknowledged."""
        if self.should_stop:
            return  # it was idle when it stopped
        self.in_a_hurry = True
        self.notify()
        await self.idle.wait()
        self.in_a_hurry = False

    @Service.task
    async def _run(self) -> None:
        try:
            while not self.should_stop:
                await self._publish_next()
        except Exception as error:
            abort(error)

    async def _publish_next(self) -> None:
        if self.owed is None:
            await self.notified.wait()
        self.notified.clear()
        group, self.filling = self.filling, self.new_group()
        batches, self.batches = self.batches, []
        begun = monotonic() if self.begun is None else self.begun
        self.begun = None
        self.emptied.set()
        publication = self.pack(group)
        outbox = Outbox()
        owed, self.owed = self.owed, None
        if owed:
            outbox.add_all(owed[0].outputs)  # it is older: in each partition it comes before
        outbox.add_all(publication.changelog)
        try:
            if publication.before:
                await self.producer.publish(publication.before)
            offsets = await self.producer.publish(outbox)
        except PutOut:  # nothing is finished: the next owner reads the batches again
            self.drop(outbox)
            self._rest()
            return
        for wrote in self.writers:
            wrote(outbox, offsets)
        if owed:
            self._finish(*owed, offsets)
        if publication.outputs:
            self.owed = publication, batches, begun
        else:
            self._finish(publication, batches, begun, offsets)
            self._rest()

    def _rest(self) -> None:
        if not self.notified.is_set():
            self.idle.set()

    def _finish(
        self, publication: Publication, batches: list[Batch], begun: float, offsets: Offsets
    ) -> None:
        publication.published(offsets, monotonic() - begun)
        for batch in batches:
            batch.finish()
