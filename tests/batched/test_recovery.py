"""Recovery ends when all is recovered or with the assignment, and never without a word."""

import asyncio
from collections.abc import Callable

import pytest
from faust.tables.recovery import RebalanceAgain, Recovery, ServiceStopped
from faust.types import TP

from pipeline.batched.app import BatchedApp
from pipeline.batched.recovery import BatchRecovery
from pipeline.batched.table import BatchTable

HERE = TP("changelog", 0)
FOR_LONG = 60


class SlowStates:
    """Takes long to be ready; says how far it came."""

    def __init__(self) -> None:
        self.heard_of = asyncio.Event()
        self.cancelled = asyncio.Event()

    def open(self, partition: int) -> None:
        pass

    def close(self, partition: int) -> None:
        pass

    def restore(self, partition: int, records: object) -> None:
        pass

    async def ready(self, partitions: set[int]) -> None:
        self.heard_of.set()
        try:
            await asyncio.sleep(FOR_LONG)
        except asyncio.CancelledError:
            self.cancelled.set()
            raise


class StockTable(BatchTable):
    """As Faust expects a table: told by a task of its own."""

    async def on_recovery_completed(self, active_tps: set[TP], standby_tps: set[TP]) -> None:
        await self.ready(active_tps)


def recovery_of(
    kind: type[Recovery], states: SlowStates, table_kind: type[BatchTable] = BatchTable
) -> Recovery:
    app = BatchedApp("test", broker="batched://127.0.0.1:1")
    table = table_kind(app, "answers", app.topic("changelog"), states)
    app.tables.add(table)
    recovery = kind(app, app.tables)
    recovery.actives_for_table[table] = {HERE}
    return recovery


def revoke(recovery: Recovery) -> None:
    recovery.on_partitions_revoked({HERE})


def begin_another(recovery: Recovery) -> None:
    recovery.signal_recovery_start.set()


def test_the_app_recovers_so() -> None:
    app = BatchedApp("test", broker="batched://127.0.0.1:1")
    assert isinstance(app.tables.recovery, BatchRecovery)  # type: ignore[attr-defined]


async def test_silence_of_kafka_is_an_error_where_faust_stops_without_a_word() -> None:
    ours = recovery_of(BatchRecovery, SlowStates())
    with pytest.raises(TimeoutError, match="Kafka does not answer"):
        await ours._wait(asyncio.sleep(FOR_LONG), timeout=0.01)
    stock = recovery_of(Recovery, SlowStates())
    with pytest.raises(ServiceStopped):
        await stock._wait(asyncio.sleep(FOR_LONG), timeout=0.01)
    assert not stock.should_stop


async def test_the_end_of_the_app_is_no_error() -> None:
    recovery = recovery_of(BatchRecovery, SlowStates())
    waiting = asyncio.create_task(recovery._wait(asyncio.sleep(FOR_LONG)))
    await asyncio.sleep(0)
    await recovery.stop()
    with pytest.raises(ServiceStopped):
        await waiting


@pytest.mark.parametrize("rebalance", [revoke, begin_another])
async def test_a_step_under_way_ends_with_its_assignment(
    rebalance: Callable[[Recovery], None],
) -> None:
    recovery = recovery_of(BatchRecovery, SlowStates())
    waiting = asyncio.create_task(recovery._wait(asyncio.sleep(FOR_LONG)))
    await asyncio.sleep(0)
    rebalance(recovery)
    with pytest.raises(RebalanceAgain):
        await waiting


async def test_faust_goes_on_with_partitions_that_are_revoked() -> None:
    stock, may_end = recovery_of(Recovery, SlowStates()), asyncio.Event()
    waiting = asyncio.create_task(stock._wait(may_end.wait()))
    await asyncio.sleep(0)
    revoke(stock)
    may_end.set()
    await waiting


async def test_what_is_assigned_next_is_recovered() -> None:
    recovery = recovery_of(BatchRecovery, SlowStates())
    revoke(recovery)
    await recovery.on_rebalance({HERE}, set(), {HERE})
    assert recovery.signal_recovery_start.is_set()
    recovery.signal_recovery_start.clear()  # as the recovery does when it begins
    await recovery._wait(asyncio.sleep(0))


@pytest.mark.parametrize("rebalance", [revoke, begin_another])
async def test_a_rebalance_that_ends_the_reading_is_not_the_end_of_the_changelog(
    rebalance: Callable[[Recovery], None],
) -> None:
    states = SlowStates()
    recovery = recovery_of(BatchRecovery, states)
    rebalance(recovery)
    with pytest.raises(RebalanceAgain):
        await recovery.on_recovery_completed()
    assert not states.heard_of.is_set()


async def test_faust_tells_the_tables_so() -> None:
    states = SlowStates()
    stock = recovery_of(Recovery, states, StockTable)
    begin_another(stock)
    telling = asyncio.create_task(stock.on_recovery_completed())
    await states.heard_of.wait()
    telling.cancel()
    await cancel_what_is_left_of(states)


@pytest.mark.parametrize("rebalance", [revoke, begin_another])
async def test_what_tables_do_before_they_are_ready_ends_with_the_assignment(
    rebalance: Callable[[Recovery], None],
) -> None:
    states = SlowStates()
    recovery = recovery_of(BatchRecovery, states)
    completing = asyncio.create_task(recovery._wait(recovery.on_recovery_completed()))
    await states.heard_of.wait()
    rebalance(recovery)
    with pytest.raises(RebalanceAgain):
        await completing
    await states.cancelled.wait()


async def test_with_faust_it_goes_on() -> None:
    states = SlowStates()
    stock = recovery_of(Recovery, states, StockTable)
    completing = asyncio.create_task(stock._wait(stock.on_recovery_completed()))
    await states.heard_of.wait()
    begin_another(stock)
    with pytest.raises(RebalanceAgain):
        await completing
    assert not states.cancelled.is_set()
    await cancel_what_is_left_of(states)


async def read_all_before_anybody_waits(recovery: Recovery) -> None:
    """As Faust does, when what is read was fetched before."""
    recovery._set_recovery_started()
    recovery._set_recovery_ended()
    recovery.signal_recovery_end.set()
    recovery.signal_recovery_end.clear()
    await asyncio.wait_for(recovery.signal_recovery_end.wait(), timeout=0.1)


async def test_the_end_that_came_before_anybody_waited_is_heard_of() -> None:
    await read_all_before_anybody_waits(recovery_of(BatchRecovery, SlowStates()))


async def test_faust_would_wait_for_ever() -> None:
    with pytest.raises(TimeoutError):
        await read_all_before_anybody_waits(recovery_of(Recovery, SlowStates()))


async def test_the_end_is_waited_for_while_there_is_more_to_read() -> None:
    recovery = recovery_of(BatchRecovery, SlowStates())
    recovery._set_recovery_started()
    waiting = asyncio.create_task(recovery.signal_recovery_end.wait())
    await asyncio.sleep(0)
    assert not waiting.done()
    recovery.signal_recovery_end.set()
    recovery.signal_recovery_end.clear()
    await waiting


async def cancel_what_is_left_of(states: SlowStates) -> None:
    for task in asyncio.all_tasks():
        if "on_recovery_completed" in repr(task):
            task.cancel()
    await states.cancelled.wait()
