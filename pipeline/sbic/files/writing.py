"""Writes a file completely or not at all: CSV, JSON Lines or Parquet."""

import csv
import io
import locale
import os
import re
import tempfile
from codecs import BOM_UTF8
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib.util import find_spec
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import numpy as np
from orjson import dumps

from sbic.engine.engine import Engine
from sbic.engine.labels import TIE, AnyEstimate, ClassEstimate, Estimate, Labels
from sbic.files.tables import BadFile, MissingExtra

if TYPE_CHECKING:
    from arro3.core import DataType, RecordBatch, Schema


def check_writable(path: Path) -> None:
    """Refuse a path that cannot be written, before any work is done for it."""
    if path.is_dir():
        raise BadFile(str(path), "is a folder, not a file")
    if not path.parent.is_dir():
        raise BadFile(str(path), f"the folder {path.parent} does not exist")
    if not os.access(path if path.exists() else path.parent, os.W_OK):
        raise BadFile(str(path), "cannot be written: permission denied")


def write_atomically(path: Path, content: bytes) -> None:
    """Write beside the file, then rename: a reader sees the old content or the new."""
    write_parts_atomically(path, [content])


def write_parts_atomically(path: Path, parts: Iterable[bytes]) -> None:
    """Do the same for content that does not fit into memory."""
    check_writable(path)
    try:
        if path.exists() and not path.is_file():  # a device or a pipe has no content to protect
            _write(path, parts)
            return
        target = path.resolve()  # follow a link instead of replacing it
        part = target.with_name(f".{target.name}.{os.getpid()}.part")
        try:
            _write(part, parts)
            if target.exists():
                part.chmod(target.stat().st_mode)
            part.replace(target)
        finally:
            part.unlink(missing_ok=True)
    except OSError as error:
        raise BadFile(str(path), f"cannot be written: {error.strerror}") from error


def _write(path: Path, parts: Iterable[bytes]) -> None:
    with path.open("wb") as file:
        file.writelines(parts)


# Encodes rows as CSV.


def csv_bytes(columns: Sequence[object], rows: Iterable[Sequence[object]]) -> bytes:
    """Return a header and rows in UTF-8; numbers at full precision, None as an empty field.

    >>> csv_bytes(("task", "log_odds"), [("t1", 0.1), ("t,2", None)])
    b'task,log_odds\\nt1,0.1\\n"t,2",\\n'
    """
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(rows)
    return text.getvalue().encode()


# Encodes rows and records as CSV and JSON Lines, in parts.


ROWS_AT_ONCE = 10_000

T = TypeVar("T")


def csv_parts(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> Iterator[bytes]:
    """Yield a header and rows; `true` and objects are written as in JSON.

    >>> b"".join(csv_parts(("task", "gold", "sources"), [("t1", True, {"3": 42}), ("t2", None, 1)]))
    b'task,gold,sources\\nt1,true,"{""3"":42}"\\nt2,,1\\n'
    """
    yield csv_bytes(columns, ())
    for part in parts_of([_cell(value) for value in row] for row in rows):
        yield csv_bytes(part[0], part[1:])


def jsonl_parts(records: Iterable[Mapping[str, object]]) -> Iterator[bytes]:
    """Yield a line for each record.

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


# Encodes rows as Excel opens them with a double click.


FORMULA = ("=", "+", "-", "@", "\t", "\r")
"""A spreadsheet runs a cell that begins with one of these."""

DECIMAL_COMMA = frozenset(
    [
        "af",
        "be",
        "bg",
        "ca",
        "cs",
        "da",
        "de",
        "el",
        "es",
        "et",
        "eu",
        "fi",
        "fr",
        "gl",
        "hr",
        "hu",
        "id",
        "is",
        "it",
        "lt",
        "lv",
        "nb",
        "nl",
        "nn",
        "no",
        "pl",
        "pt",
        "ro",
        "ru",
        "sk",
        "sl",
        "sr",
        "sv",
        "tr",
        "uk",
        "vi",
    ]
)
"""Languages whose Excel reads 0,5 and so separates cells by semicolons."""


def excel_parts(
    columns: Sequence[str], rows: Iterable[Sequence[object]], separator: str
) -> Iterator[bytes]:
    """Yield the rows of `csv_parts` with a byte order mark; text that would be a formula is quoted.

    Where semicolons separate cells, numbers have a decimal comma.

    >>> b"".join(excel_parts(("task", "log_odds"), [("=1+1", -0.5), ("t2", 3)], ";"))
    b"\\xef\\xbb\\xbftask;log_odds\\r\\n'=1+1;-0,5\\r\\nt2;3\\r\\n"
    """
    yield BOM_UTF8
    for part in parts_of(chain([columns], rows)):
        text = io.StringIO()
        writer = csv.writer(text, delimiter=separator)
        writer.writerows([_excel_cell(value, separator) for value in row] for row in part)
        yield text.getvalue().encode()


def _excel_cell(value: object, separator: str) -> object:
    value = _cell(value)
    if isinstance(value, str):
        return f"'{value}" if value.startswith(FORMULA) else value
    return str(value).replace(".", ",") if separator == ";" and type(value) is float else value


def excel_separator() -> str:
    """Return the separator of Excel in the locale of the user."""
    before = locale.setlocale(locale.LC_NUMERIC)
    try:
        locale.setlocale(locale.LC_NUMERIC, "")
        has_comma = locale.localeconv()["decimal_point"] == ","
    except locale.Error:  # not installed here; its name still says the language
        chosen = (os.environ.get(name) for name in ("LC_ALL", "LC_NUMERIC", "LANG"))
        has_comma = re.split("[_.@]", next(filter(None, chosen), ""))[0] in DECIMAL_COMMA
    finally:
        locale.setlocale(locale.LC_NUMERIC, before)
    return ";" if has_comma else ","


# Writes an estimate as CSV, a row for each task in order of first appearance.


SIGN_COLUMNS = ("task", "log_odds", "probability", "prediction")
CLASS_COLUMNS = ("task", "prediction", "confidence")


def estimate_csv(labels: Labels, estimate: AnyEstimate) -> bytes:
    """Return the estimate as CSV, in the columns for -1 and 1 or in those for other classes."""
    if isinstance(estimate, ClassEstimate):
        return class_csv(labels, estimate)
    return sign_csv(labels, estimate)


def sign_csv(labels: Labels, estimate: Estimate) -> bytes:
    """`log_odds` and `probability` are empty if the algorithm has none."""
    log_odds: list[float] | list[None] = [None] * labels.tasks
    probability: list[float] | list[None] = [None] * labels.tasks
    if estimate.probability is not None:
        log_odds = (estimate.score + 0.0).tolist()  # -0.0 becomes 0.0
        probability = estimate.probability.tolist()
    rows = zip(labels.task_names, log_odds, probability, estimate.prediction.tolist(), strict=True)
    return csv_bytes(SIGN_COLUMNS, rows)


def class_csv(labels: Labels, estimate: ClassEstimate) -> bytes:
    """`task,prediction,confidence` and a column `p:<class>` for each class, in their order.

    If the algorithm has no probabilities these are shares of the votes, empty for a task without
    votes. The prediction is empty for a tie.
    """
    columns = (*CLASS_COLUMNS, *(f"p:{name}" for name in labels.classes))
    totals = estimate.score.sum(axis=1)
    rows = (
        (task, "" if best == TIE else labels.classes[best], *shares(score, total))
        for task, best, score, total in zip(
            labels.task_names,
            estimate.prediction.tolist(),
            estimate.score.tolist(),
            (1.0 if estimate.is_probability else total for total in totals.tolist()),
            strict=True,
        )
    )
    return csv_bytes(columns, rows)


def shares(score: list[float], total: float) -> list[float | None]:
    """Return the highest share of the total, then each share; None for a total of 0.

    >>> shares([3.0, 1.0], 4.0), shares([0.0, 0.0], 0.0)
    ([0.75, 0.75, 0.25], [None, None, None])
    """
    if not total:
        return [None] * (1 + len(score))
    every = [part / total for part in score]
    return [max(every), *every]


# Writes the estimates of workers as CSV.


WORKER_COLUMNS = ("worker", "labels", "correct", "accuracy")


def workers_csv(labels: Labels, engine: Engine) -> bytes:
    """Return a row for each worker in order of first appearance.

    `correct` is how many of their labels are expected to be right. Under settled, `theta` is the
    probability that they know the answer, and `habit:CLASS` how often they give a class otherwise.
    """
    known = engine.workers(np.arange(labels.workers))
    names: tuple[str, ...] = WORKER_COLUMNS
    columns = [known.given.astype(np.int64), known.right, known.accuracy]
    if known.theta is not None and known.habits is not None:
        names += ("theta", *(f"habit:{name}" for name in labels.classes))
        columns += [known.theta, *known.habits.T[: len(labels.classes)]]
    rows = zip(labels.worker_names, *(column.tolist() for column in columns), strict=True)
    return csv_bytes(names, rows)


# Encodes rows as Parquet, a row group at a time.


ROWS_IN_A_GROUP = 100_000
BYTES_AT_ONCE = 1 << 20
INT64 = range(-(1 << 63), 1 << 63)

ColumnType = type[str] | type[bool] | type[int] | type[float]
"""The type of a column; objects and lists become JSON strings."""


def check_parquet() -> None:
    """Raise `MissingExtra` if the extra is not installed."""
    if find_spec("arro3") is None:
        raise MissingExtra("Parquet needs an extra: run pip install 'sbic[parquet]'")


def kind_of(values: Iterable[object], otherwise: ColumnType = str) -> ColumnType:
    """Return the type of a column with these values; `otherwise`, if all are missing.

    >>> [kind_of(values) for values in ([1, None], [1, 0.5], [True], [{"3": 42}], [1, "x"])]
    [<class 'int'>, <class 'float'>, <class 'bool'>, <class 'str'>, <class 'str'>]
    """
    kinds = set()
    for value in values:
        kinds.add(float if type(value) is int and value not in INT64 else type(value))
    kinds.discard(type(None))
    if not kinds:
        return otherwise
    if kinds == {int, float}:
        return float
    (kind, *others) = kinds
    return kind if not others and kind in (bool, int, float) else str


def kinds_of(
    columns: Sequence[str], rows: Sequence[Sequence[object]], otherwise: Mapping[str, ColumnType]
) -> list[ColumnType]:
    """Get the type of each column; `otherwise` has those of empty ones, by the word before a colon.

    >>> kinds_of(("task", "labels", "p:cat"), [["t1", 3, None]], {"p": float})
    [<class 'str'>, <class 'int'>, <class 'float'>]
    """
    return [
        kind_of((row[place] for row in rows), otherwise.get(name.split(":")[0], str))
        for place, name in enumerate(columns)
    ]


def parquet_parts(
    columns: Sequence[str], kinds: Sequence[ColumnType], rows: Iterable[Sequence[object]]
) -> Iterator[bytes]:
    """Yield the content of the file, in parts; it is written to a temporary file first."""
    from arro3.core import DataType, Field, RecordBatchReader, Schema
    from arro3.io import write_parquet

    types = {str: DataType.string, bool: DataType.bool, int: DataType.int64}
    typed = [types.get(kind, DataType.float64)() for kind in kinds]
    schema = Schema([Field(name, kind) for name, kind in zip(columns, typed, strict=True)])
    with tempfile.TemporaryFile() as file:
        reader = RecordBatchReader.from_batches(schema, _batches(schema, typed, kinds, rows))
        write_parquet(reader, file, compression="zstd(3)", max_row_group_size=ROWS_IN_A_GROUP)
        file.seek(0)
        while part := file.read(BYTES_AT_ONCE):
            yield part


def _batches(
    schema: "Schema",
    types: Sequence["DataType"],
    kinds: Sequence[ColumnType],
    rows: Iterable[Sequence[object]],
) -> Iterator["RecordBatch"]:
    from arro3.core import Array, RecordBatch

    for part in parts_of(rows):
        arrays = [
            Array([_parquet_cell(value, kind) for value in column], type=arrow)
            for column, kind, arrow in zip(zip(*part, strict=True), kinds, types, strict=True)
        ]
        yield RecordBatch.from_arrays(arrays, schema=schema)


def _parquet_cell(value: object, kind: ColumnType) -> object:
    if value is None or type(value) is kind:
        return value
    return float(str(value)) if kind is float else dumps(value).decode()
