"""Finds the columns of the fields of a table."""

from collections.abc import Sequence
from typing import NamedTuple

NumberedFields = tuple[int, tuple[str, ...]]
"""The line on which a row begins, and its fields."""


class Field(NamedTuple):
    """A field to read, and the name of its column if the user gave one.

    A field that is not required and has no column given may be absent, and is then empty. With
    `or_own_name` the given column may be absent if there is one with the field's own name. With
    `may_be_object` the field may be an object in JSON Lines, and is then read as JSON text.
    """

    name: str
    column: str | None = None
    is_required: bool = True
    or_own_name: bool = False
    may_be_object: bool = False


class Places(NamedTuple):
    """The index of the column of each field, None if absent; and the columns not read."""

    of_fields: tuple[int | None, ...]
    unread: tuple[str, ...]


def places(header: Sequence[str], fields: Sequence[Field], *, of_all_rows: bool = True) -> Places:
    """Find the columns of the fields; raises `ValueError` with those that are missing.

    If the header is `of_all_rows`, every column given by the user must be in it.

    >>> places(["Worker", "HITId", "note"], [Field("task", "HITId"), Field("worker")])
    Places(of_fields=(1, 0), unread=('note',))
    """
    names = [name.strip() for name in header]
    found = tuple(place(field, names) for field in fields)
    missing = [
        field
        for field, at in zip(fields, found, strict=True)
        if at is None and (field.is_required or (of_all_rows and field.column is not None))
    ]
    if missing:
        first = missing[0].column or missing[0].name
        hint = ",".join(f"{field.name}=NAME" for field in missing)
        raise ValueError(
            f"the column '{first}' is missing; the header has: {listed(names)}"
            f" (to name columns: --columns {hint})"
        )
    return Places(found, tuple(name for at, name in enumerate(names) if at not in found))


def place(field: Field, names: list[str]) -> int | None:
    """The index of a field's column: the one given, or the one with its name, in any case."""
    if field.column is not None:
        if names.count(field.column) == 1:
            return names.index(field.column)
        at = only(field.name, field.column, names)
        if at is not None or not field.or_own_name:
            return at
    return only(field.name, field.name, names)


def only(field: str, column: str, names: list[str]) -> int | None:
    """The only column with this name, in any case; None if there is none.

    >>> only("task", "task", ["Task", "task", "Label"])
    Traceback (most recent call last):
    ValueError: the column 'task' appears twice, as Task and task; --columns task=NAME takes one
    >>> only("label", "label", ["Task", "task", "Label"])
    2
    """
    found = [at for at, name in enumerate(names) if name.casefold() == column.casefold()]
    if len(found) > 1:
        spelled = [names[at] for at in found]
        ways = "" if spelled[0] == spelled[1] else f", as {spelled[0]} and {spelled[1]}"
        way_out = f"; --columns {field}=NAME takes one" if ways else ""
        raise ValueError(f"the column '{column}' appears twice{ways}{way_out}")
    return found[0] if found else None


def listed(names: list[str]) -> str:
    """The names in one line, shortened.

    >>> listed(["HITId", "two\\nlines"])
    'HITId, two lines'
    """
    line = " ".join(", ".join(names).split())
    return line if len(line) <= 60 else f"{line[:60]}..."
