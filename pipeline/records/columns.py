"""What instances tell each other: columns of numbers behind one line of JSON.

The line says what kind of record it is, in which format, and has the names. Numbers follow as they
lie in memory, column after column: a row of JSON would take longer to read than to count.
"""

from collections.abc import Sequence
from math import prod
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray
from orjson import JSONDecodeError, dumps, loads

from pipeline.records.bad import ID_MAX_BYTES, ID_SURELY_SHORT, BadRecord, Reason

MOST = 1 << 62  # of offsets, times and epochs: sums of two fit into a column
ROUNDING = 1e-6  # that sums of many labels may leave
FORMAT = 3  # records of another one are not read: see `agents.continuity`


def encode_columns(kind: str, fields: dict[str, Any], columns: Sequence[NDArray[Any]]) -> bytes:
    """A record of this kind.

    >>> encode_columns("counts", {"worker": ["w1"]}, [np.array([7], "<i2")])
    b'{"sbic":"counts","format":3,"worker":["w1"]}\\n\\x07\\x00'
    """
    line = dumps({"sbic": kind, "format": FORMAT, **fields})
    return b"".join((line, b"\n", *(column.tobytes() for column in columns)))


class Columns:
    """A record that is being read: its kind, its fields, and the columns one after the other.

    >>> record = Columns(encode_columns("counts", {"worker": ["w1"]}, [np.array([7], "<i2")]))
    >>> record.kind, record.names("worker"), record.column("<i2", 1).tolist(), record.end()
    ('counts', ['w1'], [7], None)
    >>> Columns(b"no record")
    Traceback (most recent call last):
    pipeline.records.bad.BadRecord: not a record of sbic
    """

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
        """The whole number, from 0 on, in a field."""
        number = self.fields.get(field)
        if not is_number(number):
            raise NOT_OURS
        return cast(int, number)

    def column(self, kind: str, *shape: int) -> NDArray[Any]:
        """The next column, of this type and shape."""
        size = prod(shape) * np.dtype(kind).itemsize
        part = self.rest[self._at : self._at + size]
        if len(part) != size:
            raise NOT_OURS
        self._at += size
        return np.frombuffer(part, kind).reshape(shape)

    def numbers(self, *shape: int) -> NDArray[np.float64]:
        """The next column, of floating-point numbers none of which is infinite or none at all."""
        column: NDArray[np.float64] = self.column("<f8", *shape)
        if not np.isfinite(column).all():
            raise NOT_OURS
        return column

    def end(self) -> None:
        """There is nothing more."""
        if self._at != len(self.rest):
            raise NOT_OURS


def is_id(name: str) -> bool:
    """Whether a name has the length of an id."""
    return 0 < len(name.encode()) <= ID_MAX_BYTES


def is_number(value: object, least: int = 0) -> bool:
    """Whether it is a whole number for which there is room in a column."""
    return type(value) is int and least <= value < MOST


def are_counts(numbers: NDArray[np.float64]) -> bool:
    """Whether none is negative, but for what rounding may leave."""
    return bool((numbers > -ROUNDING).all())


SURELY_GOOD_LENGTHS = set(range(1, ID_SURELY_SHORT + 1))  # in characters
NOT_OURS = BadRecord(Reason.NOT_OURS, "not a record of sbic")
