"""Reads the rows of a file, CSV or JSON Lines, packed or not, with the line of every mistake."""

import csv
import gzip
import io
import json
import re
import sys
import zlib
from codecs import BOM_UTF8, BOM_UTF16_BE, BOM_UTF16_LE
from collections.abc import Callable, Iterator, Sequence
from operator import itemgetter
from pathlib import Path
from typing import Any, NamedTuple

from sbic.foreign import printable, shown


class BadFile(Exception):
    """What is wrong with a file, in one line, with its name and the line number if known.

    >>> print(BadFile("labels.csv", "the task is empty", 3))
    labels.csv, line 3: the task is empty
    """

    def __init__(self, name: str, problem: str, line: int | None = None) -> None:
        super().__init__(name, problem, line)

    def __str__(self) -> str:
        name, problem, line = self.args
        return f"{name}: {problem}" if line is None else f"{name}, line {line}: {problem}"


def shortened(field: str) -> str:
    """Return a field shortened for a one-line message.

    >>> shortened("x" * 50)
    'xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx...'
    """
    line = printable(" ".join(field.split()))
    return line if len(line) <= 40 else f"{line[:40]}..."


def listed(names: Sequence[str], most: int = 10) -> str:
    """Names in one line, each shortened; one with a comma in it is quoted, as in CSV.

    >>> listed(["HITId", "two\\nlines", "yes, sure"]), listed("abcd", most=2)
    ('HITId, two lines, "yes, sure"', 'a, b and 2 more')
    """
    more = f" and {len(names) - most:,} more" if len(names) > most else ""
    return ", ".join(map(quoted, names[:most])) + more


def quoted(name: str) -> str:
    """Return a name, shortened, as the lists of options take it.

    >>> print(quoted("no"), quoted("yes, sure"), quoted('so "and" so'))
    no "yes, sure" "so ""and"" so"
    """
    name = shortened(name)
    return '"{}"'.format(name.replace('"', '""')) if "," in name or '"' in name else name


class MissingExtra(Exception):
    """An optional dependency is not installed; the message says which."""


# Reads the text of a file, or of standard input for `-`: unpacked and decoded.


GZIP = b"\x1f\x8b"
ZIP = b"PK\x03\x04"
CHUNK_BYTES = 1 << 20
MAX_SIZE = 4 * 10**9  # bytes, unpacked


class TextFile(NamedTuple):
    """The text of a file, and its name for messages."""

    name: str
    text: str


def read_source(path: str, max_size: int = MAX_SIZE, encoding: str | None = None) -> TextFile:
    """All of a file, unpacked; UTF-8, or UTF-16 with a byte order mark, without an `encoding`."""
    name = "standard input" if path == "-" else path
    try:
        if path == "-":
            content = b"".join(chunks_of(sys.stdin.buffer.read, name, max_size))
        else:
            with Path(path).open("rb") as file:
                content = b"".join(chunks_of(file.read, name, max_size))
    except OSError as error:
        raise BadFile(name, f"cannot be read: {error.strerror}") from error
    return TextFile(name, decoded(unpacked(content, name, max_size), name, encoding))


def chunks_of(
    read: Callable[[int], bytes], name: str, max_size: int, chunk_bytes: int = CHUNK_BYTES
) -> Iterator[bytes]:
    """Yield all of a file in chunks; raises `BadFile` once there is more than `max_size`."""
    size = 0
    while chunk := read(chunk_bytes):
        size += len(chunk)
        if size > max_size:
            limit = f"{max_size / 1e9:,.6g} GB" if max_size >= 10**8 else f"{max_size:,} bytes"
            problem = f"has more than {limit} unpacked; if it really is so large, raise --max-size"
            raise BadFile(name, problem)
        yield chunk


def unpacked(content: bytes, name: str, max_size: int = MAX_SIZE) -> bytes:
    """Return the content without gzip, which is detected by its first bytes.

    >>> unpacked(gzip.compress(b"task"), "tasks.csv"), unpacked(b"task", "tasks.csv")
    (b'task', b'task')
    """
    if content.startswith(ZIP):
        raise BadFile(name, "is a ZIP archive or a workbook, not text; save it as CSV in UTF-8")
    if not content.startswith(GZIP):
        if content and name.lower().endswith(".gz"):
            raise BadFile(name, "is not gzip, in spite of its name; rename it without .gz")
        return content
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(content)) as packed:
            for _ in chunks_of(packed.read, name, max_size):
                pass  # a file that is too large is refused before it takes any memory
            packed.seek(0)
            return packed.read()
    except EOFError as error:
        raise BadFile(name, "is incomplete: its gzip ends too early") from error
    except (OSError, zlib.error) as error:
        raise BadFile(name, f"is damaged: its gzip cannot be unpacked ({error})") from error


def decoded(content: bytes, name: str, encoding: str | None = None) -> str:
    """Decode the bytes; raises `BadFile` with the line of the first bad one.

    A byte order mark tells the encoding, whatever is given.
    """
    way_out = "save it as UTF-8"
    if content.startswith((BOM_UTF16_LE, BOM_UTF16_BE)):
        codec, called = "utf-16", "UTF-16"
    elif encoding is None or content.startswith(BOM_UTF8):
        codec, called = "utf-8-sig", "UTF-8"
        way_out += ", or, if Excel wrote it, add --encoding cp1252"
    else:
        codec = called = encoding
    try:
        text = content.decode(codec)
    except UnicodeError as error:
        start = error.start if isinstance(error, UnicodeDecodeError) else 0
        before = content[:start].decode(codec, "ignore")
        problem = f"is not text in {called}; {way_out}"
        raise BadFile(name, problem, line_of(before, len(before))) from error
    if "\0" in text:
        problem = "is not text: it has a NUL byte; save it as UTF-8"
        raise BadFile(name, problem, line_of(text, text.index("\0")))
    return text


def line_of(text: str, position: int) -> int:
    """Return the line number of a position.

    >>> line_of("task,label\\nt1,1\\n", 12)
    2
    """
    return text.count("\n", 0, position) + 1


# Finds the columns of the fields of a table.


MOST_COLUMNS = 200  # in a message; more of them suggest that it is no table

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
            f"the column '{first}' is missing; the header has: {listed(names, MOST_COLUMNS)}"
            f" (to name columns: --columns {hint})"
        )
    return Places(found, tuple(name for at, name in enumerate(names) if at not in found))


def place(field: Field, names: list[str]) -> int | None:
    """Get the index of a field's column: the one given, or the one with its name, in any case."""
    if field.column is not None:
        if names.count(field.column) == 1:
            return names.index(field.column)
        at = only(field.name, field.column, names)
        if at is not None or not field.or_own_name:
            return at
    return only(field.name, field.name, names)


def only(field: str, column: str, names: list[str]) -> int | None:
    """Return the only column with this name, in any case; None if there is none.

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


# Reads the rows of a CSV file with any of several delimiters.


DELIMITERS = ",;\t"
QUOTED = re.compile(r'(?<![^,;\s])"(?:[^"]|"")*"')  # a quoted field
HEADER_CHARACTERS = 1 << 17  # enough to find the delimiter


def csv_fields(
    source: TextFile, fields: Sequence[Field], unread: dict[str, None]
) -> Iterator[NumberedFields]:
    """Yield the line and the fields (two or more) of every row; blank lines are skipped.

    The columns may be in any order and among others, which are added to `unread`.

    >>> source = TextFile("x.csv", "Label; task;note\\n1; t1;\\n")
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
    """Return the error for a row with more fields than the header, or fewer.

    >>> other_width(1, 3, ";")
    "has 1 field, but the header has 3 (separated by ';')"
    """
    count = "1 field" if fields == 1 else f"{fields} fields"
    separated = "" if delimiter == "," else f" (separated by {shown(delimiter)})"
    return f"has {count}, but the header has {width}{separated}"


def csv_rows(source: TextFile, delimiter: str = ",") -> Iterator[tuple[int, list[str]]]:
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
    """Return the most frequent of comma, semicolon and tab in the header, outside quotes.

    >>> delimiter_of('task;"a, b, c";label\\n'), delimiter_of("task\\n")
    (';', ',')
    """
    lines = QUOTED.sub("", text[:HEADER_CHARACTERS].lstrip()).splitlines()
    return max(DELIMITERS, key=lines[0].count) if lines else DELIMITERS[0]


# Reads the rows of a JSON Lines file: an object on each line.


OBJECT = re.compile(r"\s*(\[\s*)?\{")
SUFFIXES = (".jsonl", ".ndjson", ".jsonl.gz", ".ndjson.gz")

Selection = Callable[[tuple[Any, ...]], tuple[Any, ...]]


def is_json_lines(source: TextFile) -> bool:
    """Whether a file is JSON Lines, or an array of objects (which is refused later).

    >>> files = TextFile("labels.txt", '{"task": "t1"}'), TextFile("labels.txt", "task")
    >>> [is_json_lines(file) for file in files]
    [True, False]
    """
    return source.name.lower().endswith(SUFFIXES) or bool(OBJECT.match(source.text))


def json_fields(
    source: TextFile, fields: Sequence[Field], unread: dict[str, None]
) -> Iterator[NumberedFields]:
    """Yield the line and the fields (two or more) of every object, as text.

    Numbers stay as they are written, `null` is an empty field, blank lines are skipped.

    >>> source = TextFile("x.jsonl", '{"Label": -1, "task": "t1", "note": []}\\n')
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
    """Return the object on a line, with numbers as text."""
    try:
        record = json.loads(text, parse_int=str, parse_float=str, parse_constant=str)
    except (json.JSONDecodeError, RecursionError):
        raise ValueError("is not JSON; each line must be an object by itself") from None
    if not isinstance(record, dict):
        raise ValueError("is not a JSON object, as each line must be; jq -c '.[]' unpacks an array")
    return record


def selected(keys: tuple[str, ...], fields: Sequence[Field], unread: dict[str, None]) -> Selection:
    """Get a function that selects the fields from the values of these keys, after an empty one."""
    try:
        found = places(keys, fields, of_all_rows=False)
    except ValueError as error:
        problem = str(error).replace("the column", "the field", 1)
        raise ValueError(problem.replace("the header has", "the line has", 1)) from error
    unread.update(dict.fromkeys(found.unread))
    return itemgetter(*(0 if at is None else at + 1 for at in found.of_fields))


def as_text(value: Any) -> str:
    """Return a value as the field of a table.

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
    """Return the same, with an object as JSON text, numbers as strings.

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


# Reads the fields of every row of a file, in CSV or JSON Lines.


class FileTable(NamedTuple):
    """The line and fields of every row; `unread`, the other columns, fills as rows are read."""

    rows: Iterator[NumberedFields]
    unread: dict[str, None]


def read_table(source: TextFile, fields: Sequence[Field]) -> FileTable:
    """Read a table; the format is detected.

    >>> fields = [Field("task"), Field("label")]
    >>> list(read_table(TextFile("x.csv", "task,label\\nt1,1\\n"), fields).rows)
    [(2, ('t1', '1'))]
    >>> list(read_table(TextFile("-", '{"task": "t1", "label": 1}\\n'), fields).rows)
    [(1, ('t1', '1'))]
    """
    unread: dict[str, None] = {}
    reader = json_fields if is_json_lines(source) else csv_fields
    return FileTable(reader(source, fields, unread), unread)
