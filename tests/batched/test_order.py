"""The records of a partition are delivered in order, without gaps."""

from types import SimpleNamespace
from typing import Any

import faust
from faust.types import TP

from sbic.runtime.faust.consumer import Batch, BatchConsumer
from sbic.runtime.faust.recovery import BatchTable

HERE = TP("labels", 0)


def consumer_at(offset: int) -> BatchConsumer:
    consumer = BatchConsumer.__new__(BatchConsumer)
    consumer.next_offset = {HERE: offset}
    consumer.gaps = {}
    consumer.finished = {}
    consumer.waiting = {}
    return consumer


def records(*offsets: int) -> list[Any]:
    return [SimpleNamespace(offset=offset, timestamp=offset) for offset in offsets]


def offsets(consumer: BatchConsumer, *fetched: int) -> list[int]:
    return [record.offset for record in consumer._in_order(HERE, records(*fetched))]


def test_the_workarounds_are_for_this_version_of_faust() -> None:
    assert faust.__version__ == "0.15.3", "look through sbic/runtime/faust: is all of it needed?"


def test_what_follows_is_handed_out_and_what_was_before_is_not_again() -> None:
    consumer = consumer_at(5)
    assert offsets(consumer, 5, 6) == [5, 6]
    assert offsets(consumer, 3, 4, 5, 6) == [5, 6]


def test_what_jumped_ahead_is_not_handed_out_before_what_is_missing() -> None:
    consumer = consumer_at(5)
    assert offsets(consumer, 8, 9) == []
    assert offsets(consumer, 5, 6, 7, 8, 9) == [5, 6, 7, 8, 9]


def test_a_gap_of_kafkas_own_is_passed_after_a_second_look() -> None:
    consumer = consumer_at(5)
    assert offsets(consumer, 8, 9) == []
    assert offsets(consumer, 8, 9) == [8, 9]


def test_only_what_is_finished_can_be_committed() -> None:
    consumer = consumer_at(5)
    batch = Batch({HERE: records(5, 6)}, consumer)
    assert consumer.finished == {}
    batch.finish()
    assert consumer.finished == {HERE: 7}


def test_a_table_reads_on_after_what_its_owner_wrote_unless_others_wrote_between() -> None:
    table = BatchTable.__new__(BatchTable)
    table.offsets, table.diverged = {0: 9}, set()
    table._changelog_topic = SimpleNamespace(get_topic_name=lambda: "answers")  # type: ignore[assignment]
    outbox: Any = {("answers", 0): [None, None]}
    table.wrote(outbox, {("answers", 0): 11})
    assert (table.offsets, table.diverged) == ({0: 11}, set())
    table.wrote(outbox, {("answers", 0): 99})
    assert (table.offsets, table.diverged) == ({0: 11}, {0})


def test_a_table_applies_nothing_twice_and_nothing_of_a_partition_that_it_has_lost() -> None:
    restored: list[int] = []
    table = BatchTable.__new__(BatchTable)
    table.offsets = {0: 5}

    def restore(partition: int, some: list[Any]) -> None:
        restored.extend(record.offset for record in some)

    table.states = SimpleNamespace(restore=restore)
    table.restore(0, records(4, 5, 6))
    assert (restored, table.offsets) == ([6], {0: 6})
    table.restore(0, records(6, 7))
    table.restore(0, records(6, 7))
    table.restore(1, records(0))
    assert (restored, table.offsets) == ([6, 7], {0: 7})
