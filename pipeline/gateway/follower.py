"""Follows a topic from its start in small portions; requests are served meanwhile."""

import asyncio
from collections.abc import Callable, Sequence
from time import perf_counter

from aiokafka import ConsumerRecord

from pipeline.kafka.reading import Reader

AT_ONCE = 250  # records: a few milliseconds
PAUSE = 0.5  # of the time that a portion took


class Follower:
    """Passes every record of a topic to `take`; sets `caught_up` at the end offset it had."""

    def __init__(
        self, name: str, reader: Reader, take: Callable[[Sequence[ConsumerRecord]], None]
    ) -> None:
        self.name = name
        self.caught_up = asyncio.Event()
        self._reader = reader
        self._take = take
        self._total = self._remaining = sum(reader.ends.values())

    def __str__(self) -> str:
        done = self._total - self._remaining
        return f"reading {self.name}: {done:,} of {self._total:,} records"

    async def run(self) -> None:
        """Read until cancelled."""
        self._total = await self._reader.remaining()
        while True:
            if not self.caught_up.is_set():
                self._remaining = await self._reader.remaining()
                if self._remaining <= 0:
                    self.caught_up.set()
            records = await self._reader.next(seconds=1)
            for start in range(0, len(records), AT_ONCE):
                began = perf_counter()
                self._take(records[start : start + AT_ONCE])
                await asyncio.sleep(PAUSE * (perf_counter() - began))
