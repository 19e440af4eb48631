"""The broker of a run, which is killed and restarted; one at a time."""

import asyncio
from collections.abc import Callable

from sbic.local.broker import EmbeddedBroker
from tests.brokers import kill


class Power:
    """Whether the broker is there, and how often it was not."""

    def __init__(self, broker: EmbeddedBroker) -> None:
        self.broker = broker
        self.is_on = True
        self.times_lost = 0
        self._one_at_a_time = asyncio.Lock()

    async def kill(self, seconds: float) -> None:
        """SIGKILL, and back after these seconds."""
        await self._away(lambda: kill(self.broker), seconds)

    async def restart(self, seconds: float) -> None:
        """Stop in good order, and back after these seconds."""
        await self._away(self.broker.stop, seconds)

    async def _away(self, end: Callable[[], None], seconds: float) -> None:
        async with self._one_at_a_time:
            self.times_lost += 1
            self.is_on = False
            await asyncio.to_thread(end)
            await asyncio.sleep(seconds)
            await asyncio.to_thread(self.broker.start)
            self.is_on = True
