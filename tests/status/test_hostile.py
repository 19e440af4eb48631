"""Whatever somebody writes to the topics of results, everything that reads them goes on."""

import io
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest
from orjson import dumps, loads
from rich.console import Console

from sbic.classes import SIGNS, Classes
from sbic.commands.dead_letters import as_object, lines
from sbic.commands.status import StatusScreen
from sbic.files.writing import csv_parts, excel_parts, jsonl_parts, kinds_of, parquet_parts
from sbic.gateway.view import TaskView, WorkerView
from sbic.kafka.reader import parsed, readable
from sbic.status.contents import EXPORTS, KINDS, letter_of
from sbic.status.report import Summary
from sbic.status.tallies import TaskTally, WorkerTally
from sbic.status.watch import Board
from sbic.wire.posteriors import on_one_line, posterior_parser
from tests.records.made import posterior_of

PETS = Classes(("cat", "dog"))
SIGNED = posterior_of("t1", 1.0, 3, {"0": 1}, 5)
NAMED = {
    "task": "t1",
    "prediction": "cat",
    "confidence": 0.75,
    "probabilities": {"cat": 0.75, "dog": 0.25},
    "labels": 1,
    "status": "open",
    "sources": {},
    "updated_at": 0,
}
WORKER = {
    "worker": "ann",
    "accuracy": 0.5,
    "labels": 3,
    "correct": 1.5,
    "interval": [0.2, 0.8],
    "theta": 0.5,
    "habits": {"cat": 0.5, "dog": 0.5},
}
OPTIONAL = (
    *("extra", "gold", "reason", "reopened", "evidence", "prior", "effective_votes", "last_seen"),
    *("name", "drifting", "contradicted", "blocked", "agrees_with", "gold_right", "confusion"),
)
MARK = "in place of this"


def deep(levels: int) -> bytes:
    return b"[" * levels + b"]" * levels


STRANGE = (
    *(deep(levels) for levels in (2, 250, 255, 300, 1000)),
    b'{"a":' * 300 + b"1" + b"}" * 300,
    *(b"18446744073709551615", b"-9223372036854775808", b"1e308", b"5e-324", b"0.5", b"5"),
    *(b'"a\\u0000\\u2028\\nb"', b'"\\u202e\\u001b[2J"', b'"%s"' % (b"x" * 300)),
    *(b"null", b"true", b"{}", b"[]", b'{"":1}'),
)


@dataclass
class HostileRecord:
    value: bytes | None
    key: bytes = b"t1"
    timestamp: int = 0
    partition: int = 0
    offset: int = 0
    headers: list[tuple[str, bytes]] = field(default_factory=list)


def changed(record: Mapping[str, Any], name: str) -> Iterator[HostileRecord]:
    for value in STRANGE:
        written = dumps({**record, name: MARK}).replace(b'"%s"' % MARK.encode(), value)
        yield HostileRecord(written)
        yield HostileRecord(written.replace(b",", b",\n"))


def show(part: Any) -> None:
    Console(file=io.StringIO(), width=80).print(part)


def export(what: str, classes: Classes, record: HostileRecord) -> None:
    chosen, value = EXPORTS[what], record.value or b""
    found = [loads(value)] if readable(chosen.parser(classes), value) is not None else []
    table = chosen.table(classes, found)
    for parts in (
        jsonl_parts(found),
        csv_parts(*table),
        excel_parts(*table, ";"),
        parquet_parts(table.columns, kinds_of(*table, KINDS), table.rows),
    ):
        assert all(type(part) is bytes for part in parts)


def read_posterior(classes: Classes, record: HostileRecord) -> None:
    view = TaskView(TaskTally(), classes)
    view.take([record])
    assert not any(b"\n" in value for value in view.changes.since(0).values)
    _ = view.prediction("t1"), view.latency.as_object()
    summary = Summary("birds", {}, tasks=view.tally)
    assert dumps(summary.as_object())
    show(StatusScreen(summary))
    board = Board("posteriors", classes)
    for _, posterior in parsed([record], posterior_parser(classes)):
        board.add([posterior])
        assert b"\n" not in on_one_line(record.value or b"")
    show(board)
    export("posteriors", classes, record)


def read_signed(record: HostileRecord) -> None:
    read_posterior(SIGNS, record)


def read_named(record: HostileRecord) -> None:
    read_posterior(PETS, record)


def read_worker(record: HostileRecord) -> None:
    view = WorkerView(WorkerTally())
    view.take([record])
    summary = Summary("birds", {}, workers=view.tally)
    assert dumps(summary.as_object())
    show(StatusScreen(summary))
    export("workers", PETS, record)


CASES: list[tuple[Callable[[HostileRecord], None], Mapping[str, Any], str]] = [
    (read, record, name)
    for read, record in ((read_signed, SIGNED), (read_named, NAMED), (read_worker, WORKER))
    for name in dict.fromkeys([*record, *OPTIONAL])
]


@pytest.mark.parametrize(
    ("read", "record", "name"), CASES, ids=lambda part: part if type(part) is str else None
)
def test_no_value_of_any_field_stops_a_reader(
    read: Callable[[HostileRecord], None], record: Mapping[str, Any], name: str
) -> None:
    for each in changed(record, name):
        read(each)


@pytest.mark.parametrize(
    ("what", "classes", "record"),
    [("posteriors", SIGNS, SIGNED), ("posteriors", PETS, NAMED), ("workers", PETS, WORKER)],
)
def test_what_is_well_formed_is_read(
    what: str, classes: Classes, record: Mapping[str, Any]
) -> None:
    assert readable(EXPORTS[what].parser(classes), dumps(record)) is not None


@pytest.mark.parametrize("at", [-1, 0, 10**18, 1 << 62, -(1 << 62)])
def test_a_dead_letter_of_any_time_is_shown(at: int) -> None:
    place = {"topic": b"sbic.labels", "partition": b"1", "offset": b"7"}
    headers = [(f"__connect.errors.{name}", value) for name, value in place.items()]
    letter = letter_of(HostileRecord(deep(1000), timestamp=at, headers=headers))
    assert letter is not None
    assert "sbic.labels/1/7" in lines(letter, is_replayed=False)[0]
    assert dumps(as_object(letter, is_replayed=False))
