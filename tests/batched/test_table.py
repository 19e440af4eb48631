"""Which partitions a table restores from the start, and which it keeps, after a rebalance."""

from typing import Any, cast

from faust.types import TP

from sbic.instance.publication import Outbox
from sbic.runtime.faust.app import BatchedApp
from sbic.runtime.faust.recovery import FROM_THE_START, BatchTable
from sbic.wire.partitions import Row


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
