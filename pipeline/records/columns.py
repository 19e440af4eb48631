"""The format of records between instances: one line of JSON, followed by columns of numbers.

The line has the kind and format of the record, and the names. The numbers follow in binary, column
by column, because parsing JSON would take longer than counting the votes.
"""

from collections.abc import Sequence
from math import prod
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray
from orjson import JSONDecodeError, dumps, loads

from pipeline.records.bad import ID_MAX_BYTES, ID_SURELY_SHORT, BadRecord, Reason, parser

MOST = 1 << 62  # limit of offsets, times and epochs: the sum of two still fits into a column
ROUNDING = 1e-6  # tolerance for sums over many labels
FORMAT = 4  # records of other formats are refused: see `agents.continuity`


def encode_columns(kind: str, fields: dict[str, Any], columns: Sequence[NDArray[Any]]) -> bytes:
    """A record of this kind.

    >>> encode_columns("counts", {"worker": ["w1"]}, [np.array([7], "<i2")])
    b'{"sbic":"counts","format":4,"worker":["w1"]}\\n\\x07\\x00'
    """
    line = dumps({"sbic": kind, "format": FORMAT, **fields})
    return b"".join((line, b"\n", *(column.tobytes() for column in columns)))


class Columns:
    """A reader of one record: its kind and fields, and its columns in sequence.

    >>> record = Columns(encode_columns("counts", {"worker": ["w1"]}, [np.array([7], "<i2")]))
    >>> record.kind, record.names("worker"), record.column("<i2", 1).tolist(), record.end()
    ('counts', ['w1'], [7], None)
    >>> Columns(b"no record")
    Traceback (most recent call last):
    pipeline.records.bad.BadRecord: not an sbic record
    """

    @parser
    def __init__(self, value: bytes | None) -> None:
        line, _, self.rest = (value or b"").partition(b"\n")
        try:
            self.fields = loads(line)
        except JSONDecodeError:
            raise NOT_OURS from None
        if type(self.fields) is not dict:
            raise NOT_OURS
        self.kind = self.fields.get("sbic")
        if self.fields.get("format") != FORMAT:
            raise NOT_OURS
        self._at = 0

    def names(self, field: str) -> list[str]:
        """The names in a field."""
        names = self.fields.get(field)
        if type(names) is not list or not set(map(type, names)) <= {str}:
            raise NOT_OURS
        if not set(map(len, names)) <= SURELY_GOOD_LENGTHS and not all(map(is_id, names)):
            raise NOT_OURS
        return names

    def number(self, field: str) -> int:
        """The whole number in a field, 0 or more."""
        number = self.fields.get(field)
        if not is_number(number):
            raise NOT_OURS
        return cast(int, number)

    def column(self, kind: str, *shape: int) -> NDArray[Any]:
        """The next column, of this type and shape; writable, or kernels would be compiled twice."""
        size = prod(shape) * np.dtype(kind).itemsize
        part = bytearray(self.rest[self._at : self._at + size])
        if len(part) != size:
            raise NOT_OURS
        self._at += size
        return np.frombuffer(part, kind).reshape(shape)

    def numbers(self, *shape: int) -> NDArray[np.float64]:
        """The next column, of finite floating-point numbers."""
        column: NDArray[np.float64] = self.column("<f8", *shape)
        if not np.isfinite(column).all():
            raise NOT_OURS
        return column

    def end(self) -> None:
        """Raise `BadRecord` if anything follows the columns."""
        if self._at != len(self.rest):
            raise NOT_OURS


def is_id(name: str) -> bool:
    """Whether the length of a name is that of an id."""
    return 0 < len(name.encode()) <= ID_MAX_BYTES


def is_number(value: object, least: int = 0) -> bool:
    """Whether a value is a whole number that fits into a column."""
    return type(value) is int and least <= value < MOST


def are_counts(numbers: NDArray[np.float64]) -> bool:
    """Whether no number is negative, apart from rounding errors."""
    return bool((numbers > -ROUNDING).all())


SURELY_GOOD_LENGTHS = set(range(1, ID_SURELY_SHORT + 1))  # in characters
NOT_OURS = BadRecord(Reason.NOT_OURS, "not an sbic record")
