"""Reads the rows of a CSV file with any of several delimiters."""

import csv
import io
import re
from collections.abc import Iterator, Sequence
from operator import itemgetter

from pipeline.files.columns import Field, NumberedFields, places
from pipeline.files.errors import BadFile
from pipeline.files.source import Source
from pipeline.foreign import shown

DELIMITERS = ",;\t"
QUOTED = re.compile(r'(?<![^,;\s])"(?:[^"]|"")*"')  # a quoted field
HEADER_CHARACTERS = 1 << 17  # enough to find the delimiter


def csv_fields(
    source: Source, fields: Sequence[Field], unread: dict[str, None]
) -> Iterator[NumberedFields]:
    """Yield the line and the fields (two or more) of every row; blank lines are skipped.

    The columns may be in any order and among others, which are added to `unread`.

    >>> source = Source("x.csv", "Label; task;note\\n1; t1;\\n")
    >>> list(csv_fields(source, [Field("task"), Field("label")], {}))
    [(2, ('t1', '1'))]
    """
    delimiter = delimiter_of(source.text)
    rows = csv_rows(source, delimiter)
    header_line, header = next(rows, (1, None))
    if header is None:
        needed = ", ".join(field.name for field in fields)
        raise BadFile(source.name, f"is empty; it needs a header with {needed}")
    try:
        found = places(header, fields)
    except ValueError as error:
        raise BadFile(source.name, str(error), header_line) from error
    unread.update(dict.fromkeys(found.unread))
    width = len(header)
    selected = itemgetter(*(width if at is None else at for at in found.of_fields))
    has_absent = None in found.of_fields
    for line, row in rows:
        if len(row) != width:
            raise BadFile(source.name, other_width(len(row), width, delimiter), line)
        if has_absent:
            row.append("")
        yield line, selected(row)


def other_width(fields: int, width: int, delimiter: str) -> str:
    """The error for a row with more fields than the header, or fewer.

    >>> other_width(1, 3, ";")
    "has 1 field, but the header has 3 (separated by ';')"
    """
    count = "1 field" if fields == 1 else f"{fields} fields"
    separated = "" if delimiter == "," else f" (separated by {shown(delimiter)})"
    return f"has {count}, but the header has {width}{separated}"


def csv_rows(source: Source, delimiter: str = ",") -> Iterator[tuple[int, list[str]]]:
    """Yield every row that is not blank, with the line on which it begins."""
    text = io.StringIO(source.text, newline="")
    reader = csv.reader(text, delimiter=delimiter, strict=True, skipinitialspace=True)
    line = 1
    try:
        for row in reader:
            if len(row) > 1 or "".join(row).strip():
                yield line, row
            line = reader.line_num + 1
    except csv.Error as error:
        raise BadFile(source.name, f"is not CSV: {error}", line) from error


def delimiter_of(text: str) -> str:
    """The most frequent of comma, semicolon and tab in the header, outside quotes.

    >>> delimiter_of('task;"a, b, c";label\\n'), delimiter_of("task\\n")
    (';', ',')
    """
    lines = QUOTED.sub("", text[:HEADER_CHARACTERS].lstrip()).splitlines()
    return max(DELIMITERS, key=lines[0].count) if lines else DELIMITERS[0]
