"""Recovery runs until caught up or revoked, and never ends silently."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from time import monotonic
from types import SimpleNamespace
from typing import Any, cast

import pytest
from faust.tables.recovery import RebalanceAgain, Recovery, ServiceStopped
from faust.types import TP

from sbic.instance.publication import Outbox
from sbic.runtime.faust.app import BatchedApp
from sbic.runtime.faust.consumer import Batch, batch_of, message_of
from sbic.runtime.faust.recovery import (
    FROM_THE_START,
    TURN_SECONDS,
    BatchRecovery,
    BatchTable,
    Pace,
)
from sbic.wire.partitions import Row
from tests.agents.kafka import until
from tests.batched.test_group_publisher import Finished

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

    def restore(self, partition: int, records: list[Any]) -> None:
        pass

    async def ready(self, partitions: set[int], generation: int) -> None:
        self.heard_of.set()
        try:
            await asyncio.sleep(FOR_LONG)
        except asyncio.CancelledError:
            self.cancelled.set()
            raise


class StockTable(BatchTable):
    """A table as Faust expects it: called from a separate task."""

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


async def test_the_end_that_came_before_anybody_waited_is_heard_of() -> None:
    recovery = recovery_of(BatchRecovery, SlowStates())
    recovery._set_recovery_started()
    assert not recovery.signal_recovery_end.is_set()
    recovery._set_recovery_ended()
    assert recovery.signal_recovery_end.is_set()


async def test_faust_would_wait_for_ever() -> None:
    stock = recovery_of(Recovery, SlowStates())
    stock._set_recovery_started()
    stock._set_recovery_ended()
    assert not stock.signal_recovery_end.is_set()


class Restored(SlowStates):
    """Remembers the offsets that were restored; a rebalance can come in between."""

    def __init__(self) -> None:
        super().__init__()
        self.offsets: list[int] = []
        self.then: Callable[[], None] = lambda: None

    def restore(self, partition: int, records: list[Any]) -> None:
        self.offsets += [record.offset for record in records]
        self.then()


class CollectingTable(BatchTable):
    """A table as Faust expects it: called to apply what has been collected."""

    def apply_changelog_batch(self, batch: Any) -> None:
        for event in batch:
            self.restore(HERE.partition, batch_of(event.message).parts[HERE])


def reading(
    kind: type[Recovery], states: SlowStates, table_kind: type[BatchTable] = BatchTable
) -> Recovery:
    """A recovery that has ten records to read, in batches of five."""
    recovery = recovery_of(kind, states, table_kind)
    (table,) = recovery.actives_for_table
    table.offsets = {HERE.partition: -1}  # type: ignore[attr-defined]
    recovery.add_active(table, HERE)
    recovery.active_highwaters[HERE] = 9
    recovery._set_recovery_started()
    recovery.paces = {HERE.topic: Pace()}  # type: ignore[attr-defined]
    recovery.begins = {HERE: -1}  # type: ignore[attr-defined]
    return recovery


def fetched(recovery: Recovery, *offsets: int, generation: int = 0) -> None:
    records: list[Any] = [
        SimpleNamespace(offset=offset, timestamp=0, timestamp_type=0) for offset in offsets
    ]
    message = message_of(Batch({HERE: records}, Finished()), generation)
    recovery.tables.changelog_queue.put_nowait(SimpleNamespace(message=message))


@asynccontextmanager
async def applying(recovery: Recovery) -> AsyncIterator[None]:
    """What is fetched is applied meanwhile."""
    task = asyncio.ensure_future(type(recovery)._slurp_changelogs.fun(recovery))
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait([task])


async def until_taken(recovery: Recovery) -> None:
    """Wait until all fetched records are taken, and their consumer has had a turn."""

    async def is_taken() -> bool:
        return recovery.tables.changelog_queue.empty()

    await until(is_taken)


async def test_what_is_fetched_is_applied_as_it_comes() -> None:
    states = Restored()
    recovery = reading(BatchRecovery, states)
    async with applying(recovery):
        fetched(recovery, 0, 1, 2, 3, 4)
        await until_restored(states, 5)
        assert recovery.in_recovery
        assert recovery.progress[:2] == (5, 10)  # type: ignore[attr-defined]
        fetched(recovery, 5, 6, 7, 8, 9)
        await asyncio.wait_for(recovery.signal_recovery_end.wait(), 10)
    assert states.offsets == list(range(10))


async def test_the_estimate_knows_that_records_of_one_topic_take_longer_than_of_another() -> None:
    recovery = cast(BatchRecovery, reading(BatchRecovery, Restored()))
    many = TP("other changelog", 0)
    recovery.begins[many] = recovery.active_offsets[many] = -1
    recovery.active_highwaters[many] = 999
    slow, quick = recovery.paces[HERE.topic], Pace()
    recovery.paces[many.topic] = quick
    assert list(recovery.progress) == [0, 1010, None]
    recovery.active_offsets[HERE] = 8
    slow.took(9, 9.0)
    assert list(recovery.progress) == [9, 1010, None]  # the other may take any time
    recovery.active_offsets[many] = 99
    recovery.active_offsets[HERE] = -1
    assert recovery.progress.seconds_to_go is not None  # by the rate of all, as there are enough
    recovery.active_offsets[HERE] = 8
    quick.took(100, 1.0)
    recovery.begun = monotonic() - 20  # half of it went into applying, half into fetching
    *counts, to_go = recovery.progress
    assert counts == [109, 1010]
    assert to_go == pytest.approx(2 * (1 + 9), rel=0.01)


async def test_faust_would_collect_it_first() -> None:
    states = Restored()
    stock = reading(Recovery, states, CollectingTable)
    async with applying(stock):
        fetched(stock, 0, 1, 2, 3, 4)
        await until_taken(stock)
        assert states.offsets == []
        fetched(stock, 5, 6, 7, 8, 9)
        await until_restored(states, 10)


async def until_restored(states: Restored, records: int) -> None:
    async def are_restored() -> bool:
        return len(states.offsets) == records

    await until(are_restored)


@pytest.mark.parametrize("rebalance", [revoke, begin_another])
async def test_a_rebalance_ends_it_during_a_batch_and_what_is_applied_is_known(
    rebalance: Callable[[Recovery], None],
) -> None:
    states = Restored()
    recovery = reading(BatchRecovery, states)
    states.then = lambda: rebalance(recovery)
    (table,) = recovery.actives_for_table
    async with applying(recovery):
        fetched(recovery, 0, 1, 2, 3, 4)
        await until_taken(recovery)
        assert states.offsets == [0]
        assert table.persisted_offset(HERE) == 0


async def test_what_was_fetched_in_another_generation_is_not_applied() -> None:
    states = Restored()
    recovery = reading(BatchRecovery, states)
    async with applying(recovery):
        fetched(recovery, 0, 1, 2, 3, 4, generation=7)
        await until_taken(recovery)
    assert states.offsets == []


async def test_an_error_on_the_way_ends_the_process_where_faust_would_go_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    statuses: list[int] = []
    monkeypatch.setattr("os._exit", statuses.append)

    def fail() -> None:
        raise RuntimeError("more than it can bear")

    states = Restored()
    states.then = fail
    recovery = reading(BatchRecovery, states)
    async with applying(recovery):
        fetched(recovery, 0)

        async def has_ended() -> bool:
            return bool(statuses)

        await until(has_ended)
    assert set(statuses) == {70}


def test_the_rest_of_the_loop_has_its_turn_after_some_milliseconds_whatever_records_take() -> None:
    pace = Pace()
    records: list[Any] = list(range(100))
    taken = []
    for piece in pace.pieces(records):
        taken.append(len(piece))
        pace.took(len(piece), 0.006 * len(piece))
    assert taken[:3] == [1, 2, 2]
    assert max(taken) * 0.006 <= TURN_SECONDS
    for piece in pace.pieces(records):
        pace.took(len(piece), 1.0 * len(piece))
    assert pace.records == 1
    for piece in pace.pieces(records):
        pace.took(len(piece), 0.0)
    assert pace.records == 64  # no more than there were at once


async def cancel_what_is_left_of(states: SlowStates) -> None:
    for task in asyncio.all_tasks():
        if "on_recovery_completed" in repr(task):
            task.cancel()
    await states.cancelled.wait()


# Which partitions a table restores from the start, and which it keeps, after a rebalance.


class Kept:
    """Records the calls that it gets."""

    def __init__(self) -> None:
        self.told: list[tuple[str, int]] = []

    def open(self, partition: int) -> None:
        self.told.append(("open", partition))

    def close(self, partition: int) -> None:
        self.told.append(("close", partition))

    def restore(self, partition: int, records: list[Any]) -> None:
        self.told.append(("restore", partition))

    async def ready(self, partitions: set[int], generation: int) -> None:
        pass

    def take(self) -> list[tuple[str, int]]:
        told, self.told = self.told, []
        return sorted(told)


def table() -> tuple[BatchTable, Kept]:
    app = BatchedApp("test", broker="batched://127.0.0.1:1")
    states = Kept()
    made = BatchTable(app, "answers", app.topic("test.answers"), states)
    app.tables.add(made)
    return made, states


async def rebalanced(made: BatchTable, *partitions: int, generation: int) -> None:
    """All partitions of the table and of the labels are assigned anew."""
    assigned = {TP(topic, p) for topic in ("test.answers", "test.labels") for p in partitions}
    await made.on_rebalance(assigned, set(), assigned, generation)


async def test_what_stays_is_kept_what_goes_is_forgotten_and_what_is_new_begins() -> None:
    made, states = table()
    await rebalanced(made, 0, 1, generation=1)
    assert states.take() == [("open", 0), ("open", 1)]
    made.offsets = {0: 41, 1: 42}
    await rebalanced(made, 1, 2, generation=2)
    assert states.take() == [("close", 0), ("open", 2)]
    assert made.persisted_offset(TP("test.answers", 1)) == 42
    assert made.persisted_offset(TP("test.answers", 2)) == FROM_THE_START
    assert made.persisted_offset(TP("test.answers", 0)) is None


async def test_a_member_that_missed_a_generation_keeps_what_is_known_and_reads_on() -> None:
    made, states = table()
    await rebalanced(made, 0, 1, generation=1)
    states.take()
    made.offsets = {0: 41, 1: 42}
    await rebalanced(made, 0, generation=3)
    assert states.take() == [("close", 1)]
    assert made.persisted_offset(TP("test.answers", 0)) == 41


async def test_where_others_wrote_meanwhile_it_begins_anew_after_a_missed_generation() -> None:
    made, states = table()
    await rebalanced(made, 0, 1, generation=1)
    states.take()
    made.offsets = {0: 41, 1: 42}
    row = Row(None, b"")
    outbox = Outbox()
    for partition in 0, 1:
        outbox.add("test.answers", partition, row)
    cast(BatchedApp, made.app).wrote(outbox, {("test.answers", 0): 99, ("test.answers", 1): 43})
    await rebalanced(made, 0, 1, generation=3)
    assert states.take() == [("close", 0), ("open", 0)]
    assert made.persisted_offset(TP("test.answers", 0)) == FROM_THE_START
    assert made.persisted_offset(TP("test.answers", 1)) == 43
    await rebalanced(made, 0, 1, generation=9)
    assert states.take() == []
