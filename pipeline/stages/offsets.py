"""Which offsets of a labels partition have been counted: each counts once, in any order.

The highest offset alone is not enough: a forged record with a later offset would prevent all labels
before it from being counted.
"""

import numpy as np
from numpy.typing import NDArray

from pipeline.inference.compiled import kernel
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
        new = np.empty(len(offsets), np.bool_)
        done = 0
        while done < len(offsets):
            number = int(offsets[done]) >> CHUNK_BITS
            bits = self._chunks.get(number)
            if bits is None:
                bits = self._chunks[number] = np.zeros(CHUNK >> 3, np.uint8)
            done, last = _mark(bits, number, offsets, new, done)
            self.last = max(self.last, last)
        return new


@kernel
def _mark(
    bits: NDArray[np.uint8], number: int, offsets: Ints, new: NDArray[np.bool_], start: int
) -> tuple[int, int]:
    """Mark offsets from `start` on, up to the first of another chunk; return it and the highest."""
    last = -1
    for place in range(start, len(offsets)):
        offset = offsets[place]
        if offset >> CHUNK_BITS != number:
            return place, last
        byte, bit = (offset & (CHUNK - 1)) >> 3, np.uint8(128 >> (offset & 7))
        new[place] = not bits[byte] & bit
        bits[byte] |= bit
        last = max(last, offset)
    return len(offsets), last
