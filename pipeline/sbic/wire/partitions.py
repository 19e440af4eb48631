"""A record to publish, and the partition of its key: murmur2, as in most clients of Kafka."""

from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sbic.engine.compiled import kernel, uncompiled
from sbic.engine.labels import Ints
from sbic.wire.columns import Names
from sbic.wire.dead_letters import Header

NO_HEADERS: list[Header] = []


class Row(NamedTuple):
    """A record to publish; without a timestamp it gets the time of publication."""

    key: bytes | None
    value: bytes | None
    timestamp: int | None = None
    headers: list[Header] = NO_HEADERS


REMEMBERED_KEYS = 1 << 16
SEED = 0x9747B28C
MIX = 0x5BD1E995
MASK = 0xFFFFFFFF


@kernel
def _murmur2(text: Any, start: int, end: int) -> int:
    h = SEED ^ (end - start)
    whole = start + (end - start) // 4 * 4
    for at in range(start, whole, 4):
        k = int(text[at]) | int(text[at + 1]) << 8
        k = (k | int(text[at + 2]) << 16 | int(text[at + 3]) << 24) * MIX & MASK
        h = (h * MIX ^ (k ^ k >> 24) * MIX) & MASK
    if whole < end:
        for at in range(whole, end):
            h ^= int(text[at]) << 8 * (at - whole)
        h = h * MIX & MASK
    h = (h ^ h >> 13) * MIX & MASK
    return h ^ h >> 15


def murmur2(key: bytes) -> int:
    """Return the 32-bit hash, unsigned, of `org.apache.kafka.common.utils.Utils.murmur2`.

    >>> murmur2(b"foobar") == -790332482 & MASK
    True
    """
    return uncompiled(_murmur2)(key, 0, len(key))  # a command that sends a few compiles nothing


@lru_cache(REMEMBERED_KEYS)
def partition_of(key: bytes, partitions: int) -> int:
    """Return the partition that Kafka clients choose by default for a record with this key.

    >>> partition_of(b"w1", 8)
    7
    """
    return (murmur2(key) & 0x7FFFFFFF) % partitions


def homes_of(names: Names, partitions: int) -> NDArray[np.int32]:
    """Return the partition of each name, compiled.

    >>> homes_of(Names.of(["w1", "foobar", "w2"]), 8).tolist()
    [7, 6, 2]
    """
    homes = np.empty(len(names), np.int32)
    _homes_of(names.text, names.ends, partitions, homes)
    return homes


@kernel
def _homes_of(
    text: NDArray[np.uint8], ends: Ints, partitions: int, homes: NDArray[np.int32]
) -> None:
    start = 0
    for row in range(len(ends)):
        homes[row] = (_murmur2(text, start, ends[row]) & 0x7FFFFFFF) % partitions
        start = ends[row]
