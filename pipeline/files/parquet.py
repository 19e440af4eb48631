"""Encodes rows as Parquet, a row group at a time."""

import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING

from orjson import dumps

from pipeline.files.errors import MissingExtra
from pipeline.files.lines import parts_of

if TYPE_CHECKING:
    from arro3.core import DataType, RecordBatch, Schema

ROWS_IN_A_GROUP = 100_000
BYTES_AT_ONCE = 1 << 20
INT64 = range(-(1 << 63), 1 << 63)

Kind = type[str] | type[bool] | type[int] | type[float]
"""The type of a column; objects and lists become JSON strings."""


def check_parquet() -> None:
    """Raise `MissingExtra` if the extra is not installed."""
    if find_spec("arro3") is None:
        raise MissingExtra("Parquet needs an extra: run pip install 'sbic[parquet]'")


def kind_of(values: Iterable[object], otherwise: Kind = str) -> Kind:
    """The type of a column with these values; `otherwise`, if all are missing.

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
    columns: Sequence[str], rows: Sequence[Sequence[object]], otherwise: Mapping[str, Kind]
) -> list[Kind]:
    """The type of each column; `otherwise` has those of empty ones, by the word before a colon.

    >>> kinds_of(("task", "labels", "p:cat"), [["t1", 3, None]], {"p": float})
    [<class 'str'>, <class 'int'>, <class 'float'>]
    """
    return [
        kind_of((row[place] for row in rows), otherwise.get(name.split(":")[0], str))
        for place, name in enumerate(columns)
    ]


def parquet_parts(
    columns: Sequence[str], kinds: Sequence[Kind], rows: Iterable[Sequence[object]]
) -> Iterator[bytes]:
    """The content of the file, in parts; it is written to a temporary file first."""
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
    kinds: Sequence[Kind],
    rows: Iterable[Sequence[object]],
) -> Iterator["RecordBatch"]:
    from arro3.core import Array, RecordBatch

    for part in parts_of(rows):
        arrays = [
            Array([_cell(value, kind) for value in column], type=arrow)
            for column, kind, arrow in zip(zip(*part, strict=True), kinds, types, strict=True)
        ]
        yield RecordBatch.from_arrays(arrays, schema=schema)


def _cell(value: object, kind: Kind) -> object:
    if value is None or type(value) is kind:
        return value
    return float(str(value)) if kind is float else dumps(value).decode()
