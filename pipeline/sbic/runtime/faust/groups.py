"""Publishes results in groups: while one group is in flight, the next one fills.

At a low rate every label is published at once; at a high rate, or on a slow broker, groups grow.
An agent that published each of its batches separately would wait once for every partition.
"""

import asyncio
from collections.abc import Callable, Sequence
from time import monotonic
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from mode import Service

from sbic.instance.publication import Outbox
from sbic.runtime.faust.consumer import Batch
from sbic.runtime.faust.producer import BatchProducer, Offsets, RemovedFromGroup
from sbic.runtime.faust.stop import abort

TURN_SECONDS = 0.005
NOTHING = Outbox()

OnPublished = Callable[[Outbox, Offsets], None]
"""Called with records that were published, and with the last offset in each partition."""


def _ignore(_outbox: Outbox) -> None:
    """Do nothing."""


class Gathered(Protocol):
    """Results that agents gather until they are published together."""

    @property
    def is_full(self) -> bool:
        """Whether agents have to wait for the next group."""


class Steps(NamedTuple):
    """A group, ready to be published.

    `changelog` is sent once `before` is acknowledged, and `outputs` once `changelog` is, together
    with the `changelog` of the next publication. Then `published` is called with the offsets and
    the seconds since the first record of the group was taken.
    """

    changelog: Outbox
    published: Callable[[Offsets, float], None]
    before: Outbox = NOTHING
    outputs: Outbox = NOTHING


class UnfinishedGroup(NamedTuple):
    """A publication whose outputs are not acknowledged, and the batches that it results from."""

    publication: Steps
    batches: list[Batch]
    begun: float

    def finish(self, offsets: Offsets) -> None:
        """Let the batches be committed: all is published."""
        self.publication.published(offsets, monotonic() - self.begun)
        for batch in self.batches:
            batch.finish()


G = TypeVar("G", bound=Gathered)


class GroupPublisher(Service, Generic[G]):
    """Publishes one group after the other, and then finishes their batches.

    `drop` is called with an outbox that a fenced producer did not publish, `writers` with each that
    was published.
    """

    def __init__(
        self,
        producer: BatchProducer,
        new_group: Callable[[], G],
        pack: Callable[[G], Steps],
        drop: Callable[[Outbox], None] = _ignore,
        writers: Sequence[OnPublished] = (),
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.producer = producer
        self.new_group = new_group
        self.pack = pack
        self.drop = drop
        self.writers = writers
        self.filling = new_group()
        self.batches: list[Batch] = []
        self.begun: float | None = None  # when the first record of the group was taken
        self.unfinished: UnfinishedGroup | None = None
        self.flushes = 0  # under way: a rebalance and a stop may both wait
        self.turn_ends = 0.0
        self.notified = asyncio.Event()
        self.emptied = asyncio.Event()
        self.idle = asyncio.Event()
        self.idle.set()

    async def on_start(self) -> None:
        """Connect the producer."""
        await self.add_runtime_dependency(self.producer)

    async def acquire(self) -> G:
        """Return the group to add results to; wait while it is full.

        Other tasks run at times, but not at every call: otherwise a group would be published with
        only the first partition of a batch.
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
        """Publish the group soon; with a batch: all its results are in the group or before it."""
        if batch is not None:
            self.batches.append(batch)
        self.idle.clear()
        self.notified.set()

    @property
    def is_flushing(self) -> bool:
        """Whether somebody waits until all is published: nothing may be kept for a later group."""
        return self.flushes > 0

    async def wait_idle(self) -> None:
        """Flush: publish all results, and wait until they are acknowledged."""
        if self.should_stop:
            return  # it was idle when it stopped
        self.flushes += 1
        try:
            self.notify()
            await self.idle.wait()
        finally:
            self.flushes -= 1

    @Service.task
    async def _run(self) -> None:
        try:
            while not self.should_stop:
                await self._publish_next()
        except Exception as error:
            abort(error)

    async def _publish_next(self) -> None:
        if self.unfinished is None:
            await self.notified.wait()
        this = self._take()
        publication = this.publication
        outbox = Outbox()
        last, self.unfinished = self.unfinished, None
        if last:
            outbox.add_all(last.publication.outputs)  # older: first in each partition
        outbox.add_all(publication.changelog)
        try:
            if publication.before:
                await self.producer.publish(publication.before)
            offsets = await self.producer.publish(outbox)
        except RemovedFromGroup:  # the batches stay unfinished: the next owner reads them again
            self.drop(outbox)
            self._rest()
            return
        for wrote in self.writers:
            wrote(outbox, offsets)
        if last:
            last.finish(offsets)
        if publication.outputs:
            self.unfinished = this
        else:
            this.finish(offsets)
            self._rest()

    def _take(self) -> UnfinishedGroup:
        """Pack the group that was filled, and begin the next one."""
        self.notified.clear()
        group, self.filling = self.filling, self.new_group()
        batches, self.batches = self.batches, []
        begun = monotonic() if self.begun is None else self.begun
        self.begun = None
        self.emptied.set()
        return UnfinishedGroup(self.pack(group), batches, begun)

    def _rest(self) -> None:
        if not self.notified.is_set():
            self.idle.set()
