"""Reads the rows of a JSON Lines file: an object on each line."""

import io
import json
import re
from collections.abc import Callable, Iterator, Sequence
from operator import itemgetter
from typing import Any

from pipeline.files.columns import Field, NumberedFields, places
from pipeline.files.errors import BadFile
from pipeline.files.source import Source

OBJECT = re.compile(r"\s*(\[\s*)?\{")
SUFFIXES = (".jsonl", ".ndjson", ".jsonl.gz", ".ndjson.gz")

Selection = Callable[[tuple[Any, ...]], tuple[Any, ...]]


def is_json_lines(source: Source) -> bool:
    """Whether a file is JSON Lines, or an array of objects (which is refused later).

    >>> is_json_lines(Source("labels.txt", '{"task": "t1"}')), is_json_lines(Source("x", "task"))
    (True, False)
    """
    return source.name.lower().endswith(SUFFIXES) or bool(OBJECT.match(source.text))


def json_fields(
    source: Source, fields: Sequence[Field], unread: dict[str, None]
) -> Iterator[NumberedFields]:
    """Yield the line and the fields (two or more) of every object, as text.

    Numbers stay as they are written, `null` is an empty field, blank lines are skipped.

    >>> source = Source("x.jsonl", '{"Label": -1, "task": "t1", "note": []}\\n')
    >>> list(json_fields(source, [Field("task"), Field("label")], {}))
    [(1, ('t1', '-1'))]
    """
    selections: dict[tuple[str, ...], Selection] = {}  # by the keys of the object
    as_texts = [as_text_or_object if field.may_be_object else as_text for field in fields]
    for line, line_text in enumerate(io.StringIO(source.text, newline="\n"), start=1):
        if not line_text.strip():
            continue
        try:
            record = parsed(line_text)
            keys = tuple(record)
            selection = selections.get(keys)
            if selection is None:
                selection = selections[keys] = selected(keys, fields, unread)
            values = selection(("", *record.values()))
            yield line, tuple([text(value) for text, value in zip(as_texts, values, strict=True)])
        except ValueError as error:
            raise BadFile(source.name, str(error), line) from error


def parsed(text: str) -> dict[str, Any]:
    """The object on a line, with numbers as text."""
    try:
        record = json.loads(text, parse_int=str, parse_float=str, parse_constant=str)
    except (json.JSONDecodeError, RecursionError):
        raise ValueError("is not JSON; each line must be an object by itself") from None
    if not isinstance(record, dict):
        raise ValueError("is not a JSON object, as each line must be; jq -c '.[]' unpacks an array")
    return record


def selected(keys: tuple[str, ...], fields: Sequence[Field], unread: dict[str, None]) -> Selection:
    """A function that selects the fields from the values of these keys, after an empty one."""
    try:
        found = places(keys, fields, of_all_rows=False)
    except ValueError as error:
        problem = str(error).replace("the column", "the field", 1)
        raise ValueError(problem.replace("the header has", "the line has", 1)) from error
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
    if not is_text(value):
        raise ValueError("has a string that is not text: a NUL or half of a surrogate pair")
    return value


def as_text_or_object(value: Any) -> str:
    """The same, with an object as JSON text, numbers as strings.

    >>> as_text_or_object({"cat": "0.7"}), as_text_or_object("0.7")
    ('{"cat": "0.7"}', '0.7')
    """
    return json.dumps(value, ensure_ascii=False) if isinstance(value, dict) else as_text(value)


def is_text(value: str) -> bool:
    """Whether a string is valid text: JSON escapes can produce others."""
    try:
        return "\0" not in value and (value.isascii() or bool(value.encode()))
    except UnicodeEncodeError:
        return False
