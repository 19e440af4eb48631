"""Names to numbers and back, many at once, compiled; arrays that grow; the newest names.

A hash table with linear probing. A dictionary of strings would wait for memory several times for
each name; here the reads for many names overlap. The hash is HalfSipHash-1-3 with a random key,
so that nobody can choose names that collide.
"""

from collections import deque
from secrets import randbits
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from sbic.engine.compiled import kernel
from sbic.engine.labels import Ints
from sbic.wire.columns import Bytes, Names, gather_names

Element = TypeVar("Element", bound=np.generic)


def with_room(array: NDArray[Element], rows: int) -> NDArray[Element]:
    """Return the array, or if it has fewer rows a longer copy, which ends with zeros.

    >>> with_room(np.array([1, 2]), 3).tolist(), with_room(np.array([1, 2]), 1).tolist()
    ([1, 2, 0, 0], [1, 2])
    """
    if rows <= len(array):
        return array
    longer = np.zeros((max(rows, 2 * len(array)), *array.shape[1:]), array.dtype)
    longer[: len(array)] = array
    return longer


Slots = NDArray[np.int32]

FREE = -1  # in place of a number: a free slot, or an unknown name
AHEAD = 64  # names whose reads from memory overlap
MASK = 0xFFFFFFFF


class Index(NamedTuple):
    """The arrays of the hash table, with all names in `text`, up to `ends`."""

    key: Ints
    slots: Slots
    text: Bytes
    ends: Ints


class NameTable:
    """Numbers in the order in which names first appear.

    `known` gets the number of a single name from a dictionary: it costs less than a compiled call.

    >>> table = NameTable()
    >>> table.number(Names.of(["t1", "t2", "t1"])).tolist(), table.names, len(table)
    ([0, 1, 0], ['t1', 't2'], 2)
    >>> table.find(Names.of(["t3", "t2"])).tolist(), table.known("t2"), table.known("t3")
    ([-1, 1], 1, None)
    >>> list(table.names_of(np.array([1, 1])))
    ['t2', 't2']
    """

    def __init__(self) -> None:
        self.names: list[str] = []
        self._numbers: dict[str, int] = {}
        self.known = self._numbers.get
        key = np.array([randbits(32), randbits(32)])
        slots = np.full(16, FREE, np.int32)
        self._index = Index(key, slots, np.empty(64, np.uint8), np.zeros(8, np.int64))

    def __len__(self) -> int:
        return len(self.names)

    def find(self, names: Names) -> Ints:
        """Return the number of each name, or FREE."""
        found = np.empty(len(names), np.int64)
        _find(self._index, names.text, names.ends, np.empty(AHEAD, np.int64), found)
        return found

    def number(self, names: Names) -> Ints:
        """Return the number of each name; new names get the next."""
        found = self.find(names)
        new = np.flatnonzero(found == FREE)
        if len(new):
            self._add(names, new, found)
        return found

    def _add(self, names: Names, new: Ints, found: Ints) -> None:
        self._make_room(len(new), int(names.lengths[new].sum()))
        first = len(self)
        end = _add(self._index, names.text, names.ends, new, first, found)
        self.names += self.names_of(np.arange(first, end))
        self._numbers.update(zip(self.names[first:], range(first, end), strict=True))

    def names_of(self, numbers: Ints) -> Names:
        """Return the names with these numbers."""
        return gather_names(self._index.text, self._index.ends, numbers)

    def _make_room(self, names: int, size: int) -> None:
        """Reserve memory for further names with this many bytes."""
        known, index = len(self), self._index
        used, rows = int(index.ends[known - 1]) if known else 0, known + names
        text, ends = with_room(index.text, used + size), with_room(index.ends, rows)
        self._index = index._replace(text=text, ends=ends)
        if 2 * rows > len(index.slots):
            slots = np.full(1 << (4 * rows).bit_length(), FREE, np.int32)
            self._index = self._index._replace(slots=slots)
            _fill(self._index, known)


@kernel
def _find(index: Index, text: Bytes, ends: Ints, hashes: Ints, found: Ints) -> int:
    """Write the number of each name; the result has no meaning."""
    read = 0
    for first in range(0, len(ends), AHEAD):
        end = min(first + AHEAD, len(ends))
        start = ends[first - 1] if first else 0
        for row in range(first, end):
            hashes[row - first] = _hash(text, start, ends[row], index.key)
            start = ends[row]
        # read what the comparisons will need, so that the reads overlap
        for row in range(first, end):
            found[row] = index.slots[hashes[row - first] & (len(index.slots) - 1)]
        for row in range(first, end):
            if found[row] != FREE:
                read += index.ends[found[row]]
        for row in range(first, end):
            if found[row] != FREE:
                read += index.text[index.ends[found[row]] - 1]
        start = ends[first - 1] if first else 0
        for row in range(first, end):
            slot = _slot_of(index, text, start, ends[row], hashes[row - first])
            found[row] = index.slots[slot]
            start = ends[row]
    return read  # otherwise the compiler would remove the reads


@kernel
def _add(index: Index, text: Bytes, ends: Ints, new: Ints, known: int, found: Ints) -> int:
    """Assign numbers to the names at these positions; return how many are known then."""
    for row in new:
        start = ends[row - 1] if row else 0
        slot = _slot_of(index, text, start, ends[row], _hash(text, start, ends[row], index.key))
        if index.slots[slot] == FREE:
            at = index.ends[known - 1] if known else 0
            for byte in range(start, ends[row]):
                index.text[at + byte - start] = text[byte]
            index.ends[known] = at + ends[row] - start
            index.slots[slot] = known
            known += 1
        found[row] = index.slots[slot]
    return known


@kernel
def _fill(index: Index, known: int) -> None:
    """Enter this many names into empty slots."""
    start = 0
    for number in range(known):
        slot = _hash(index.text, start, index.ends[number], index.key) & (len(index.slots) - 1)
        while index.slots[slot] != FREE:
            slot = (slot + 1) & (len(index.slots) - 1)
        index.slots[slot] = number
        start = index.ends[number]


@kernel
def _slot_of(index: Index, text: Bytes, start: int, end: int, hashed: int) -> int:
    """Return the slot of a name, or the free one where it belongs."""
    slot = hashed & (len(index.slots) - 1)
    while index.slots[slot] != FREE:
        number = index.slots[slot]
        at = index.ends[number - 1] if number else 0
        if index.ends[number] - at == end - start:
            byte = start
            while byte < end and index.text[at + byte - start] == text[byte]:
                byte += 1
            if byte == end:
                break
        slot = (slot + 1) & (len(index.slots) - 1)
    return slot


@kernel
def _hash(text: Bytes, start: int, end: int, key: Ints) -> int:
    """HalfSipHash-1-3 (Aumasson and Bernstein) of a name."""
    a, b = key[0], key[1]
    c, d = a ^ 0x6C796765, b ^ 0x74656462
    at = start
    while at + 4 <= end:
        word = np.int64(text[at]) | np.int64(text[at + 1]) << 8
        word |= np.int64(text[at + 2]) << 16 | np.int64(text[at + 3]) << 24
        a, b, c, d = _mixed(a, b, c, d ^ word)
        a ^= word
        at += 4
    word = np.int64(end - start & 0xFF) << 24
    for byte in range(at, end):
        word |= np.int64(text[byte]) << 8 * (byte - at)
    a, b, c, d = _mixed(a, b, c, d ^ word)
    a ^= word
    c ^= 0xFF
    for _ in range(3):
        a, b, c, d = _mixed(a, b, c, d)
    return int(b ^ d)


@kernel
def _mixed(a: Any, b: Any, c: Any, d: Any) -> tuple[Any, Any, Any, Any]:
    a = a + b & MASK
    b = (b << 5 | b >> 27) & MASK ^ a
    a = (a << 16 | a >> 16) & MASK
    c = c + d & MASK
    d = (d << 8 | d >> 24) & MASK ^ c
    a = a + d & MASK
    d = (d << 7 | d >> 25) & MASK ^ a
    c = c + b & MASK
    b = (b << 13 | b >> 19) & MASK ^ c
    c = (c << 16 | c >> 16) & MASK
    return a, b, c, d


# The names in the newest restored records.
#
# A crash can have prevented the publication of what was recorded in the last seconds, so these
# tasks or workers are published again.


class RecentNames:
    """The names in records of the last `span`, by the times of the records.

    >>> import numpy as np
    >>> recent = RecentNames(5)
    >>> recent.add([1, 2, 7], np.array([1, 3, 4]), Names.of(["a", "b", "c", "d"]))
    >>> list(recent.take())
    ['b', 'c', 'd']
    """

    def __init__(self, span: int) -> None:
        self.span = span
        self._records: deque[tuple[int, Names]] = deque()

    def add(self, times: list[int], ends: Ints, names: Names) -> None:
        """Add restored records by time; `ends` are the positions after their last names."""
        if not times:
            return
        newest = max(times)
        start = 0
        for time, end in zip(times, ends.tolist(), strict=True):
            if time >= newest - self.span:
                self._records.append((time, names.part(start, end)))
            start = end
        while self._records[0][0] < newest - self.span:
            self._records.popleft()

    def take(self) -> Names:
        """Remove and return all names."""
        names = Names.joined([some for _, some in self._records])
        self._records.clear()
        return names
