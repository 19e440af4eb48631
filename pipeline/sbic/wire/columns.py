"""The format of records between instances: one line of JSON, followed by columns of numbers.

The line has the kind and format of the record, and its fields. Numbers and names follow in binary,
column by column, because parsing JSON would take longer than counting the votes.
"""

from collections.abc import Iterator, Sequence
from math import prod
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray
from orjson import JSONDecodeError, dumps, loads

from sbic.engine.compiled import kernel
from sbic.engine.labels import Ints
from sbic.wire.bad import ID_MAX_BYTES, BadRecord, Reason, parser

MOST = 1 << 62  # limit of offsets, times and epochs: the sum of two still fits into a column
FORMAT = 5  # records of other formats are refused: `check_continuity` says what to do
COLUMNS = b"columns %d" % FORMAT  # sealed with the record: others are not of this version


def encode_columns(kind: str, fields: dict[str, Any], columns: Sequence[NDArray[Any]]) -> bytes:
    """Return a record of this kind.

    >>> encode_columns("counts", {"worker": ["w1"]}, [np.array([7], "<i2")])
    b'{"sbic":"counts","format":5,"worker":["w1"]}\\n\\x07\\x00'
    """
    line = dumps({"sbic": kind, "format": FORMAT, **fields})
    return b"".join((line, b"\n", *(column.tobytes() for column in columns)))


class Columns:
    """A reader of one record: its kind and fields, and its columns in sequence.

    >>> record = Columns(encode_columns("counts", {"worker": ["w1"]}, [np.array([7], "<i2")]))
    >>> record.kind, record.names("worker"), record.column("<i2", 1).tolist()
    ('counts', ['w1'], [7])
    >>> Columns(b"no record")
    Traceback (most recent call last):
    sbic.wire.bad.BadRecord: not an sbic record
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
        """Return the names in a field."""
        return cast(list[str], self.fields[field])

    def number(self, field: str) -> int:
        """Return the whole number in a field, 0 or more."""
        number = self.fields.get(field)
        if type(number) is not int or not 0 <= number < MOST:
            raise NOT_OURS
        return number

    def column(self, kind: str, *shape: int) -> NDArray[Any]:
        """Read a column of this type and shape; writable, or kernels would be compiled twice."""
        size = prod(shape) * np.dtype(kind).itemsize
        part = bytearray(self.rest[self._at : self._at + size])
        if len(part) != size:
            raise NOT_OURS
        self._at += size
        return np.frombuffer(part, kind).reshape(shape)


def is_id(name: str) -> bool:
    """Whether the length of a name is that of an id."""
    return 0 < len(name.encode()) <= ID_MAX_BYTES


NOT_OURS = BadRecord(Reason.NOT_OURS, "not an sbic record")


# Names as bytes in sequence: making a string of each would take longer than counting its vote.


Bytes = NDArray[np.uint8]


class Names:
    """Names in UTF-8, one after the other; `ends` are the positions after each.

    >>> names = Names.of(["t1", "t2", "é"])
    >>> len(names), list(names), names[2], names.ends.tolist()
    (3, ['t1', 't2', 'é'], 'é', [2, 4, 6])
    >>> list(names.part(1, 3)), list(names.take(np.array([2, 0])))
    (['t2', 'é'], ['é', 't1'])
    """

    def __init__(self, text: Bytes, ends: Ints) -> None:
        text.flags.writeable = False  # always, so that kernels are compiled once
        self.text = text
        self.ends = ends

    @classmethod
    def of(cls, names: "Names | Sequence[str]") -> "Names":
        """Return these names."""
        if isinstance(names, Names):
            return names
        joined = "".join(names)
        lengths = map(len, names)
        if not joined.isascii():
            lengths = map(len, map(str.encode, names))
        ends = np.cumsum(np.fromiter(lengths, np.int64, len(names)))
        return cls(np.frombuffer(joined.encode(), np.uint8), ends)

    @classmethod
    def joined(cls, parts: Sequence["Names"]) -> "Names":
        """Return the names of several parts.

        >>> list(Names.joined([Names.of(["t1"]), Names.of([]), Names.of(["t2", "t3"])]))
        ['t1', 't2', 't3']
        """
        if not parts:
            return NO_NAMES
        sizes = np.array([len(part.text) for part in parts])
        starts = (np.cumsum(sizes) - sizes).tolist()
        ends = [part.ends + start for part, start in zip(parts, starts, strict=True)]
        return cls(np.concatenate([part.text for part in parts]), np.concatenate(ends))

    def __len__(self) -> int:
        return len(self.ends)

    def __getitem__(self, place: int) -> str:
        start = self.ends[place - 1] if place else 0
        return self.text[start : self.ends[place]].tobytes().decode()

    def __iter__(self) -> Iterator[str]:
        text, start = self.text.tobytes(), 0
        for end in self.ends.tolist():
            yield text[start:end].decode()
            start = end

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Names) and list(self) == list(other)

    def __repr__(self) -> str:
        return f"Names.of({list(self)})"

    @property
    def lengths(self) -> Ints:
        """The number of bytes of each name."""
        lengths = self.ends.copy()
        lengths[1:] -= self.ends[:-1]
        return lengths

    def part(self, first: int, end: int) -> "Names":
        """Return the names from one position up to another."""
        start = int(self.ends[first - 1]) if first else 0
        ends = self.ends[first:end]
        return Names(self.text[start : ends[-1] if len(ends) else start], ends - start)

    def take(self, places: Ints) -> "Names":
        """Return the names at these positions."""
        return gather_names(self.text, self.ends, places)


def gather_names(text: Bytes, ends: Ints, places: Ints) -> Names:
    """Names copied from these positions."""
    new_ends = np.empty(len(places), np.int64)
    found = np.empty(_measure(ends, places, new_ends), np.uint8)
    _copy(text, ends, places, found)
    return Names(found, new_ends)


@kernel
def _measure(ends: Ints, places: Ints, new_ends: Ints) -> int:
    """Write the ends of the names at these positions, once they are copied; return the last."""
    end = 0
    for row in range(len(places)):
        place = places[row]
        end += ends[place] - (ends[place - 1] if place else 0)
        new_ends[row] = end
    return end


@kernel
def _copy(text: Bytes, ends: Ints, places: Ints, into: Bytes) -> None:
    at = 0
    for place in places:
        for byte in range(ends[place - 1] if place else 0, ends[place]):
            into[at] = text[byte]
            at += 1


def read_names(text: bytes, lengths: NDArray[np.uint16]) -> Names:
    """Return the names in a text with their lengths in bytes."""
    return Names(np.frombuffer(text, np.uint8), np.cumsum(lengths, dtype=np.int64))


NO_NAMES = Names.of([])
