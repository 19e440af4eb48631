"""Recovery of the tables that ends only when all is recovered.

Faust 0.15.3 takes a request that timed out for the end of the service: recovery stops without a
word, and the instance waits for it for ever. And it takes a rebalance while it reads a changelog
for the end of that changelog, and tells the tables so.
"""

from typing import Any

from faust.tables.manager import TableManager
from faust.tables.recovery import RebalanceAgain, Recovery, ServiceStopped


class BatchRecovery(Recovery):
    """Faust's recovery; Kafka's silence is an error, and a rebalance begins it again."""

    async def _wait(
        self,
        coro: Any,
        timeout: Any = None,  # noqa: ASYNC109  # Faust calls it so
    ) -> None:
        try:
            await super()._wait(coro, timeout)
        except ServiceStopped:
            if self.should_stop:
                raise
            raise TimeoutError("Kafka does not answer, and the tables are not recovered") from None

    async def on_recovery_completed(self, generation_id: int = 0) -> None:
        """Tell the tables, unless it was a rebalance that ended the reading."""
        if self.signal_recovery_start.is_set():
            raise RebalanceAgain
        await super().on_recovery_completed(generation_id)


class BatchTableManager(TableManager):
    """Faust's table manager with that recovery."""

    @property
    def recovery(self) -> Recovery:
        """The recovery of all tables."""
        if self._recovery is None:
            self._recovery = BatchRecovery(self.app, self, beacon=self.beacon, loop=self.loop)
        return self._recovery
