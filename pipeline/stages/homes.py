"""The partitions of many names at once, compiled; `partitioner` computes one at a time."""

import numpy as np
from numpy.typing import NDArray

from pipeline.inference.compiled import kernel
from pipeline.inference.labels import Ints
from pipeline.partitioner import MASK, MIX, SEED
from pipeline.records.names import Names


def homes_of(names: Names, partitions: int) -> NDArray[np.int32]:
    """The partition of each name.

    >>> homes_of(Names.of(["w1", "foobar", "w2"]), 8).tolist()
    [7, 6, 2]
    """
    homes = np.empty(len(names), np.int32)
    _murmur2_each(names.text, names.ends, partitions, homes)
    return homes


@kernel
def _murmur2_each(
    text: NDArray[np.uint8], ends: Ints, partitions: int, homes: NDArray[np.int32]
) -> None:
    start = 0
    for row in range(len(ends)):
        size = ends[row] - start
        h = np.int64(SEED ^ size)
        for at in range(start, start + size // 4 * 4, 4):
            k = np.int64(text[at]) | np.int64(text[at + 1]) << 8
            k = (k | np.int64(text[at + 2]) << 16 | np.int64(text[at + 3]) << 24) * MIX & MASK
            h = (h * MIX & MASK) ^ ((k ^ k >> 24) * MIX & MASK)
        if size % 4:
            for at in range(start + size // 4 * 4, start + size):
                h ^= np.int64(text[at]) << 8 * (at - start) % 32
            h = h * MIX & MASK
        h = (h ^ h >> 13) * MIX & MASK
        homes[row] = ((h ^ h >> 15) & 0x7FFFFFFF) % partitions
        start += size
