"""Reads files of workers: `worker`, and optionally what the owner of a project says of each."""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from sbic.files.labels import DEFAULT, Reading
from sbic.files.tables import BadFile, Field, TextFile, read_table, shortened
from sbic.wire.bad import BadRecord
from sbic.wire.workers import RosterEntry, parse_roster

FIELDS = ("worker", "group", "tier", "price", "blocked", "name")
TRUTHS = {"true": True, "false": False}


class RosterRow(NamedTuple):
    """A worker, and what is said of them: the fields that are not empty."""

    worker: str
    changes: Mapping[str, Any]


class RosterTable(NamedTuple):
    """What is said of each worker; `unread`, the other columns, fills as rows are read."""

    rows: Iterator[RosterRow]
    unread: dict[str, None]


def roster_table(source: TextFile, reading: Reading = DEFAULT) -> RosterTable:
    """Read the workers of a file; no worker may appear twice.

    >>> table = roster_table(TextFile("roster.csv", "worker,tier,price\\nann,2,0.5\\nbob,,\\n"))
    >>> [(said.worker, said.changes) for said in table.rows]
    [('ann', {'tier': 2, 'price': 0.5}), ('bob', {})]
    >>> list(roster_table(TextFile("roster.csv", "worker,price\\nann,-1\\n")).rows)
    Traceback (most recent call last):
    sbic.files.tables.BadFile: roster.csv, line 2: 'price' must be 0, a number from 0.000001 to \
1000000, or null, not -1
    """
    fields = [
        Field(name, reading.columns.get(name), is_required=name == "worker") for name in FIELDS
    ]
    table = read_table(source, fields)

    def rows() -> Iterator[RosterRow]:
        lines: dict[str, int] = {}
        for line, texts in table.rows:
            if not "".join(texts).strip():
                continue  # a blank line of a spreadsheet still has delimiters
            try:
                said = _said(dict(zip(FIELDS, map(str.strip, texts), strict=True)))
            except BadRecord as bad:
                raise BadFile(source.name, bad.message, line) from None
            if said.worker in lines:
                problem = f"the worker '{shortened(said.worker)}' is already on line"
                raise BadFile(source.name, f"{problem} {lines[said.worker]}", line)
            lines[said.worker] = line
            yield said

    return RosterTable(rows(), table.unread)


def _said(texts: Mapping[str, str]) -> RosterRow:
    """Read what a row says; raises `BadRecord`."""
    values: dict[str, Any] = {
        "blocked": TRUTHS.get(texts["blocked"].lower(), texts["blocked"]),
        "tier": number(texts["tier"]),
        "price": number(texts["price"]),
    }
    record = {name: values.get(name, text) for name, text in texts.items() if text}
    worker, entry = parse_roster(None, {"worker": "", **record})
    given = entry._asdict()
    return RosterRow(worker, {name: given[name] for name in RosterEntry._fields if name in record})


def number(text: str) -> float | str:
    """Read the number in a text; another text stays, for whoever checks it to refuse.

    >>> number("2"), number("0.5"), number("two")
    (2, 0.5, 'two')
    """
    try:
        return int(text)
    except ValueError:
        try:
            return float(text)
        except ValueError:
            return text
