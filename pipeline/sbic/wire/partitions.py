"""The partition of a key: murmur2, as in most clients of Kafka; of one, or of many at once."""

from functools import lru_cache
from struct import unpack_from

import numpy as np
from numpy.typing import NDArray

from sbic.engine.compiled import kernel
from sbic.engine.labels import Ints
from sbic.wire.columns import Names

REMEMBERED_KEYS = 1 << 16
SEED = 0x9747B28C
MIX = 0x5BD1E995
MASK = 0xFFFFFFFF


def murmur2(key: bytes) -> int:
    """The 32-bit hash, unsigned, of `org.apache.kafka.common.utils.Utils.murmur2`.

    >>> murmur2(b"foobar") == -790332482 & MASK
    True
    """
    size = len(key)
    h = SEED ^ size
    for k in unpack_from(f"<{size // 4}I", key):
        k = k * MIX & MASK
        h = (h * MIX ^ (k ^ k >> 24) * MIX) & MASK
    if rest := size % 4:
        h = (h ^ int.from_bytes(key[-rest:], "little")) * MIX & MASK
    h = (h ^ h >> 13) * MIX & MASK
    return h ^ h >> 15


@lru_cache(REMEMBERED_KEYS)
def partition_of(key: bytes, partitions: int) -> int:
    """The partition that Kafka clients choose by default for a record with this key.

    >>> partition_of(b"w1", 8)
    7
    """
    return (murmur2(key) & 0x7FFFFFFF) % partitions


# The partitions of many names at once, compiled; `partitioner` computes one at a time.


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
