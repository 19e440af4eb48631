"""Where a forwarded record came from: a header tells, so that one forwarded twice counts once.

Users can write that header too. It is believed only of a place that can be, and whoever counts by
it compares what else the record says: a forged one then stands for nothing but itself.
"""

from collections.abc import Iterable, Sequence
from hashlib import blake2b
from typing import NamedTuple

HEADER = "sbic.origin"
HEADERS_BYTES = 32 * 1024  # of all headers that are forwarded: they fit beside any good record
HEADER_ROOM = 16  # what a header takes besides its name and value, at the most
MOST_DIGITS = 19

Header = tuple[str, bytes | None]


class Origin(NamedTuple):
    """The place of a record before it was forwarded, or became a dead letter.

    >>> str(Origin("sbic.labels", 3, 42)), Origin.parse("sbic.labels/3/42")
    ('sbic.labels/3/42', Origin(topic='sbic.labels', partition=3, offset=42))
    """

    topic: str
    partition: int
    offset: int

    def __str__(self) -> str:
        return f"{self.topic}/{self.partition}/{self.offset}"

    @classmethod
    def parse(cls, text: str) -> "Origin":
        """The origin as `str` writes it, or `ValueError`."""
        topic, partition, offset = text.rsplit("/", 2)
        return cls(topic, int(partition), int(offset))

    def header(self) -> tuple[str, bytes]:
        """The header that tells.

        >>> Origin("sbic.labels", 3, 42).header()
        ('sbic.origin', b'sbic.labels/3/42')
        """
        return HEADER, str(self).encode()


def origin_of(headers: Iterable[Header], topic: str, partitions: int) -> Origin | None:
    """The origin that the headers of a record of this topic tell, if it can be one.

    >>> origin_of([Origin("sbic.labels", 3, 42).header()], "sbic.labels", partitions=8)
    Origin(topic='sbic.labels', partition=3, offset=42)
    >>> origin_of([Origin("sbic.labels", 8, 42).header()], "sbic.labels", partitions=8)
    """
    told = next((value for name, value in headers if name == HEADER), None)
    place, _, offset = (told or b"").rpartition(b"/")
    name, _, partition = place.rpartition(b"/")
    if name != topic.encode() or not (_is_number(partition) and _is_number(offset)):
        return None
    origin = Origin(topic, int(partition), int(offset))
    return origin if origin.partition < partitions else None


def _is_number(digits: bytes) -> bool:
    return digits.isdigit() and len(digits) < MOST_DIGITS


def forwarded_headers(headers: Sequence[Header], origin: Origin) -> list[Header]:
    """The first headers, as many as fit, and the one that tells the origin.

    >>> forwarded_headers([("trace", b"7"), ("note", bytes(99_999))], Origin("labels", 3, 42))
    [('trace', b'7'), ('sbic.origin', b'labels/3/42')]
    """
    kept, size = [], 0
    for name, value in headers:
        size += len(name.encode()) + len(value or b"") + HEADER_ROOM
        if size > HEADERS_BYTES:
            break
        if name != HEADER:
            kept.append((name, value))
    return [*kept, origin.header()]


def mark_of(origin: Origin, value: bytes | None) -> int:
    """A number for what was sent there: the same again if it is forwarded again.

    >>> place = Origin("labels", 3, 42)
    >>> mark_of(place, b"one") == mark_of(place, b"one") != mark_of(place, b"other")
    True
    """
    told = b"%d/%d/%s" % (origin.partition, origin.offset, value or b"")
    return int.from_bytes(blake2b(told, digest_size=7).digest())
