"""The rows of a JSON Lines file: an object on each line."""

import io
import json
from collections.abc import Iterator, Sequence
from operator import itemgetter
from typing import Any

from pipeline.files.columns import Field, NumberedFields, places
from pipeline.files.errors import BadFile
from pipeline.files.source import Source

SUFFIXES = (".jsonl", ".ndjson", ".jsonl.gz", ".ndjson.gz")


def is_json_lines(source: Source) -> bool:
    """Whether a file is JSON Lines, by its name or its first character.

    >>> is_json_lines(Source("labels.txt", '{"task": "t1"}')), is_json_lines(Source("x", "task"))
    (True, False)
    """
    return source.name.lower().endswith(SUFFIXES) or source.text[:4096].lstrip().startswith("{")


def json_fields(
    source: Source, fields: Sequence[Field], unread: dict[str, None]
) -> Iterator[NumberedFields]:
    """The line and the fields (two or more) of every object, as text; blank lines are passed over.

    Numbers are kept as they are written, `null` is an empty field.

    >>> source = Source("x.jsonl", '{"Label": -1, "task": "t1", "note": []}\\n')
    >>> list(json_fields(source, [Field("task"), Field("label")], {}))
    [(1, ('t1', '-1'))]
    """
    selections: dict[tuple[str, ...], Any] = {}  # of each set of keys, in their order
    for line, text in enumerate(io.StringIO(source.text, newline="\n"), start=1):
        if not text.strip():
            continue
        try:
            record = parsed(text)
            keys = tuple(record)
            selection = selections.get(keys)
            if selection is None:
                selection = selections[keys] = selected(keys, fields, unread)
            values = selection(("", *record.values()))
            yield line, tuple(map(as_text, values))
        except ValueError as error:
            raise BadFile(source.name, str(error), line) from error


def parsed(text: str) -> dict[str, Any]:
    """The object on a line, its numbers as text."""
    try:
        record = json.loads(text, parse_int=str, parse_float=str, parse_constant=str)
    except (json.JSONDecodeError, RecursionError):
        raise ValueError("is not JSON; each line must be an object by itself") from None
    if not isinstance(record, dict):
        raise ValueError("is not a JSON object, as each line must be")
    return record


def selected(keys: tuple[str, ...], fields: Sequence[Field], unread: dict[str, None]) -> Any:
    """What takes the fields from the values of these keys, which an empty one precedes."""
    try:
        found = places(keys, fields)
    except ValueError as error:
        problem = str(error).replace("the column", "the field").replace("the header", "the line")
        raise ValueError(problem) from error
    unread.update(dict.fromkeys(found.unread))
    return itemgetter(*(0 if at is None else at + 1 for at in found.of_fields))


def as_text(value: Any) -> str:
    """A value as the field of a table.

    >>> as_text("t1"), as_text(None), as_text(True)
    ('t1', '', 'true')
    """
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if not isinstance(value, str):
        raise ValueError("has a list or an object where a string or a number must be")
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError:
            raise ValueError("has a surrogate without its other half, which is not text") from None
    return value
