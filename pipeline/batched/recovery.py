"""Recovery of the tables that ends only when all is recovered, or with the assignment.

Faust 0.15.3 takes a request that timed out for the end of the service: recovery stops without a
word, and the instance waits for it for ever. It takes a rebalance while it reads a changelog for
the end of that changelog, and tells the tables so. And it goes on with partitions that are revoked,
until others are assigned; what the tables do when they hear of the end of it goes on even then.
And it says that all is read for a moment only: whoever did not wait by then would wait for ever.
"""

import asyncio
from typing import Any, Literal

from faust.tables.manager import TableManager
from faust.tables.recovery import RebalanceAgain, Recovery, ServiceStopped
from faust.types import TP, AppT
from faust.types.tables import TableManagerT

from pipeline.batched.table import BatchTable


class AllIsRead(asyncio.Event):
    """What Faust sets when the changelogs are read, and clears at once."""

    def __init__(self, recovery: Recovery) -> None:
        super().__init__()
        self.recovery = recovery

    async def wait(self) -> Literal[True]:
        """Wait until they are read; not if they are."""
        if self.recovery.in_recovery:
            await super().wait()
        return True


class BatchRecovery(Recovery):
    """Faust's recovery; Kafka's silence is an error, and a revocation is the end of it."""

    def __init__(self, app: AppT, tables: TableManagerT, **kwargs: Any) -> None:
        super().__init__(app, tables, **kwargs)
        self.revoked = asyncio.Event()
        self._signal_recovery_end = AllIsRead(self)

    def on_partitions_revoked(self, revoked: set[TP]) -> None:
        """Stop where it is: a rebalance begins, or the end of the app."""
        super().on_partitions_revoked(revoked)
        self.revoked.set()

    async def on_rebalance(
        self,
        assigned: set[TP],
        revoked: set[TP],
        newly_assigned: set[TP],
        generation_id: int = 0,
    ) -> None:
        """Begin anew."""
        self.revoked.clear()
        await super().on_rebalance(assigned, revoked, newly_assigned, generation_id)

    async def _wait(
        self,
        coro: Any,
        timeout: Any = None,  # noqa: ASYNC109  # Faust calls it so
    ) -> None:
        result = await self.wait_first(
            coro,
            self.revoked,  # type: ignore[arg-type]  # it takes events of asyncio too
            self.signal_recovery_start,  # type: ignore[arg-type]
            timeout=timeout,
        )
        if result.stopped and self.should_stop:
            raise ServiceStopped
        if result.stopped:
            raise TimeoutError("Kafka does not answer, and the tables are not recovered")
        if self._is_void():
            raise RebalanceAgain

    def _is_void(self) -> bool:
        return self.revoked.is_set() or self.signal_recovery_start.is_set()

    async def on_recovery_completed(self, generation_id: int = 0) -> None:
        """Tell the tables, unless it was a rebalance that ended the reading."""
        if self._is_void():
            raise RebalanceAgain
        for table, partitions in self.actives_for_table.items():
            if isinstance(table, BatchTable):
                await table.ready(partitions)
        await super().on_recovery_completed(generation_id)


class BatchTableManager(TableManager):
    """Faust's table manager with that recovery."""

    @property
    def recovery(self) -> Recovery:
        """The recovery of all tables."""
        if self._recovery is None:
            self._recovery = BatchRecovery(self.app, self, beacon=self.beacon, loop=self.loop)
        return self._recovery
