"""Reads the fields of every row of a file, in CSV or JSON Lines."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from pipeline.files.columns import Field, NumberedFields
from pipeline.files.csv_rows import csv_fields
from pipeline.files.json_lines import is_json_lines, json_fields
from pipeline.files.source import Source


class Table(NamedTuple):
    """The line and fields of every row; `unread`, the other columns, fills as rows are read."""

    rows: Iterator[NumberedFields]
    unread: dict[str, None]


def read_table(source: Source, fields: Sequence[Field]) -> Table:
    """Read a table; the format is detected.

    >>> fields = [Field("task"), Field("label")]
    >>> list(read_table(Source("x.csv", "task,label\\nt1,1\\n"), fields).rows)
    [(2, ('t1', '1'))]
    >>> list(read_table(Source("-", '{"task": "t1", "label": 1}\\n'), fields).rows)
    [(1, ('t1', '1'))]
    """
    unread: dict[str, None] = {}
    reader = json_fields if is_json_lines(source) else csv_fields
    return Table(reader(source, fields, unread), unread)
