"""Encodes rows and records as CSV and JSON Lines, in parts."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import TypeVar

from orjson import dumps

from pipeline.files.csv_text import csv_bytes

ROWS_AT_ONCE = 10_000

T = TypeVar("T")


def csv_parts(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> Iterator[bytes]:
    """A header and rows; `true` and objects are written as in JSON.

    >>> b"".join(csv_parts(("task", "gold", "sources"), [("t1", True, {"3": 42}), ("t2", None, 1)]))
    b'task,gold,sources\\nt1,true,"{""3"":42}"\\nt2,,1\\n'
    """
    yield csv_bytes(columns, ())
    for part in parts_of([_cell(value) for value in row] for row in rows):
        yield csv_bytes(part[0], part[1:])


def jsonl_parts(records: Iterable[Mapping[str, object]]) -> Iterator[bytes]:
    """A line for each record.

    >>> list(jsonl_parts([{"task": "t1", "label": 1}]))
    [b'{"task":"t1","label":1}\\n']
    """
    for part in parts_of(records):
        yield b"".join(dumps(record) + b"\n" for record in part)


def parts_of(rows: Iterable[T]) -> Iterator[list[T]]:
    """Split rows into lists of `ROWS_AT_ONCE`."""
    remaining = iter(rows)
    while part := list(islice(remaining, ROWS_AT_ONCE)):
        yield part


def _cell(value: object) -> object:
    return dumps(value).decode() if type(value) in (bool, dict, list) else value
