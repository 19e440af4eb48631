"""The partition of a key: murmur2, as in Kafka's Java client and most others."""

from functools import lru_cache
from struct import unpack_from

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
