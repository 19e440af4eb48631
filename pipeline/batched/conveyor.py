"""Publishes in groups: while one group is on its way to Kafka, the next one fills.

At a low rate every label is published at once; at a high one, or on a slow broker, groups grow.
An agent that waited for each of its batches would wait once for every partition.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Generic, Protocol, TypeVar

from mode import Service

from pipeline.batched.batch import Batch
from pipeline.batched.stop import stop_at_once


class Group(Protocol):
    """What an agent gathers until it is published."""

    @property
    def is_full(self) -> bool:
        """Whether the agent has to wait for the next one."""


G = TypeVar("G", bound=Group)


class Conveyor(Service, Generic[G]):
    """Publishes one group after the other, and then says that their batches are finished."""

    def __init__(
        self, new_group: Callable[[], G], publish: Callable[[G], Awaitable[None]], **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self.new_group = new_group
        self.publish = publish
        self.filling = new_group()
        self.batches: list[Batch] = []
        self.loaded = asyncio.Event()
        self.emptied = asyncio.Event()
        self.idle = asyncio.Event()
        self.idle.set()

    async def room(self) -> G:
        """The group that is being filled, once it has room; others get a turn meanwhile."""
        await asyncio.sleep(0)
        while self.filling.is_full:
            self.emptied.clear()
            await self.emptied.wait()
        return self.filling

    def load(self, batch: Batch | None = None) -> None:
        """Something is in the group; with a batch: that was the last of it."""
        if batch is not None:
            self.batches.append(batch)
        self.idle.clear()
        self.loaded.set()

    @Service.task
    async def _run(self) -> None:
        while not self.should_stop:
            await self.loaded.wait()
            self.loaded.clear()
            group, self.filling = self.filling, self.new_group()
            batches, self.batches = self.batches, []
            self.emptied.set()
            try:
                await self.publish(group)
            except Exception as error:
                stop_at_once(error)
            for batch in batches:
                batch.finish()
            if not self.loaded.is_set():
                self.idle.set()
