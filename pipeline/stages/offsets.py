"""Which offsets of a labels partition have been counted: each counts once, in any order.

The highest offset alone is not enough: a forged record with a later offset would prevent all labels
before it from being counted.
"""

import numpy as np
from numpy.typing import NDArray

from pipeline.inference.labels import Ints

CHUNK_BITS = 12
CHUNK = 1 << CHUNK_BITS


class CountedOffsets:
    """A set of offsets, with one bit for each.

    >>> counted = CountedOffsets()
    >>> counted.add(np.array([3, 5, 9000])).tolist()
    [True, True, True]
    >>> counted.add(np.array([4, 5, 9000])).tolist(), counted.last
    ([True, False, False], 9000)
    >>> counted.add(np.array([7, 6, 7])).tolist()
    [True, True, False]
    >>> 4 in counted, 8 in counted
    (True, False)
    """

    def __init__(self) -> None:
        self.last = -1
        self._chunks: dict[int, NDArray[np.uint8]] = {}

    def __contains__(self, offset: int) -> bool:
        bits = self._chunks.get(offset >> CHUNK_BITS)
        if bits is None:
            return False
        place = offset & (CHUNK - 1)
        return bool(bits[place >> 3] >> (7 - (place & 7)) & 1)

    def add(self, offsets: Ints) -> NDArray[np.bool_]:
        """Add offsets; return which of them are new, only the first of duplicates."""
        new = np.ones(len(offsets), np.bool_)
        if not len(offsets):
            return new
        first, last = int(offsets.min()), int(offsets.max())
        if first >> CHUNK_BITS == last >> CHUNK_BITS:
            self._add(first >> CHUNK_BITS, offsets, new, slice(None), is_old=first <= self.last)
        else:
            numbers = offsets >> CHUNK_BITS
            for number in np.unique(numbers).tolist():
                which = numbers == number
                self._add(number, offsets, new, which, is_old=first <= self.last)
        self.last = max(self.last, last)
        if (offsets[1:] <= offsets[:-1]).any():
            is_first = np.zeros(len(offsets), np.bool_)
            is_first[np.unique(offsets, return_index=True)[1]] = True
            new &= is_first
        return new

    def _add(
        self,
        number: int,
        offsets: Ints,
        new: NDArray[np.bool_],
        which: NDArray[np.bool_] | slice,
        *,
        is_old: bool,
    ) -> None:
        """Add the offsets of one chunk."""
        places = offsets[which] & (CHUNK - 1)
        bits = self._chunks.get(number)
        if bits is None:
            bits = self._chunks[number] = np.zeros(CHUNK >> 3, np.uint8)
        elif is_old:
            new[which] = np.unpackbits(bits)[places] == 0
        added = np.zeros(CHUNK, np.bool_)
        added[places] = True
        bits |= np.packbits(added)
