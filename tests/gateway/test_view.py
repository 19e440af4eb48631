"""A gateway's view of a project, fed with records, without Kafka."""

import asyncio
from dataclasses import dataclass

import numpy as np
import pytest
from orjson import dumps, loads

from sbic.gateway.view import Latency, LiveRanking, TaskView
from sbic.kafka.writer import At, Writer
from sbic.status.tallies import TaskTally
from sbic.wire.partitions import Row
from tests.records.made import encode_posterior, posterior_of


@dataclass
class ViewedRecord:
    key: bytes
    value: bytes | None
    timestamp: int = 0


def record(task: str, log_odds: float, labels: int = 3, at: int = 0) -> ViewedRecord:
    posterior = posterior_of(task, log_odds, labels, {"0": at}, at)
    return ViewedRecord(task.encode(), encode_posterior(posterior), at)


async def names(view: TaskView, order: str) -> list[str]:
    page = await view.orders[order].page(None, 10)
    return [loads(value)["task"] for value in view.values(page.numbers)]


async def test_each_order_has_its_tasks_first() -> None:
    view = TaskView(TaskTally())
    view.take([record("sure", 5.0, at=1), record("open", 0.1, at=3), record("new", 0.0, 1, at=2)])
    assert await names(view, "disputed") == ["open", "sure"]
    assert await names(view, "recent") == ["open", "new", "sure"]
    assert await names(view, "confidence") == ["sure", "open", "new"]


async def test_a_task_that_is_gone_is_on_no_page_and_unknown() -> None:
    view = TaskView(TaskTally())
    view.take([record("t1", 1.0), record("t2", 1.0)])
    view.take([ViewedRecord(b"t1", None)])
    assert view.get("t1") is None
    assert await names(view, "disputed") == ["t2"]
    assert len(view.tally) == 1


@pytest.mark.parametrize(
    "changes",
    [
        {"probability": None},
        {"probability": 7.5},
        {"prediction": [[]]},
        {"updated_at": (1 << 64) - 1},
        {"labels": -1},
        {"labels": 1 << 62},
        {"status": "lost"},
        {"task": ""},
    ],
    ids=str,
)
def test_a_forged_posterior_changes_nothing(changes: dict[str, object]) -> None:
    view = TaskView(TaskTally())
    good = posterior_of("t1", 1.0, 3, {}, 0)
    view.take([ViewedRecord(b"x", dumps({**good, **changes})), record("t2", 1.0)])
    assert len(view.tally) == 1
    assert view.get("t2") is not None


def test_a_posterior_over_several_lines_cannot_end_an_event() -> None:
    view = TaskView(TaskTally())
    forged = encode_posterior(posterior_of("t1", 1.0, 3, {}, 0))
    view.take([ViewedRecord(b"t1", forged.replace(b",", b",\n\n"))])
    view.take([ViewedRecord(b"t2", forged.replace(b"t1", b"t2").replace(b",", b",\r"))])
    values = view.changes.since(0).values
    assert len(values) == 2
    assert not any(b"\n" in value or b"\r" in value for value in values)


async def test_those_who_ask_at_once_wait_for_one_sort() -> None:
    sorts = 0

    def columns() -> tuple[np.ndarray, np.ndarray]:
        nonlocal sorts
        sorts += 1
        return np.arange(3), np.array([0.3, 0.1, 0.2])

    ranking = LiveRanking(columns, key=float)
    pages = await asyncio.gather(*(ranking.page(None, 2) for _ in range(20)))
    assert {tuple(page.numbers) for page in pages} == {(1, 2)}
    assert sorts == 1


class SmallBatches:
    """Takes batches of at most three rows, one at a time."""

    def __init__(self) -> None:
        self.batches: list[list[bytes]] = []
        self.rows: list[bytes] = []

    def create_batch(self) -> "SmallBatches":
        self.rows = []
        return self

    def append(self, value: bytes, **_: object) -> object | None:
        if len(self.rows) == 3:
            return None
        self.rows.append(value)
        return self

    def close(self) -> None:
        self.batches.append(self.rows)

    async def send_batch(self, *_: object, **_in: object) -> "asyncio.Future[object]":
        acknowledged = asyncio.get_running_loop().create_future()
        offset = sum(map(len, self.batches[:-1]))
        acknowledged.set_result(type("Metadata", (), {"offset": offset}))
        return acknowledged


async def test_rows_of_many_go_together_and_each_learns_its_place() -> None:
    kafka = SmallBatches()
    writer = Writer(kafka, partitions=8)
    deliveries = [writer.put("topic", [Row(b"k", b"%d" % number)], 5) for number in range(7)]
    deliveries[3].give_up()
    for number, delivery in enumerate(deliveries):
        if number != 3:
            await delivery.done
    assert kafka.batches == [[b"0", b"1", b"2"], [b"4", b"5", b"6"]]
    assert [delivery.places[0] for delivery in deliveries] == [
        *(At(5, offset) for offset in (0, 1, 2)),
        None,
        *(At(5, offset) for offset in (3, 4, 5)),
    ]
    assert not writer.failed.is_set()


async def test_a_page_is_in_the_order_of_what_it_shows_though_the_ranking_is_old() -> None:
    view = TaskView(TaskTally())
    view.take([record("one", 0.1), record("two", 1.0)])
    assert await names(view, "disputed") == ["one", "two"]
    view.take([record("one", 3.0)])  # within the time for which a ranking is kept
    assert await names(view, "disputed") == ["two", "one"]


def test_labels_that_waited_for_a_recount_have_no_latency() -> None:
    latency = Latency(clock=lambda: 1000.0)
    for second in range(3):
        latency.add(published_at=900_000 + second, labelled_at=700_000)
    assert latency.as_object()["median_ms"] is None
    latency.add(published_at=950_040, labelled_at=950_000)
    assert latency.as_object()["median_ms"] == 40
