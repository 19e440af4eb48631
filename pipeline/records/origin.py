"""The origin of a forwarded record, in a header: a record that is forwarded twice counts once.

Users can write that header too. It is ignored unless its topic and partition exist. Duplicates are
recognised by origin and content together, so that a forged header affects only its own record.
"""

from collections.abc import Iterable, Sequence
from hashlib import blake2b
from typing import NamedTuple

HEADER = "sbic.origin"
HEADERS_BYTES = 32 * 1024  # of all forwarded headers: they fit together with any valid record
HEADER_ROOM = 16  # upper limit of a header's size besides its name and value
MOST_DIGITS = 19

Header = tuple[str, bytes | None]


class Origin(NamedTuple):
    """Topic, partition and offset of a record before it was forwarded, or became a dead letter.

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
        """The header of a forwarded record.

        >>> Origin("sbic.labels", 3, 42).header()
        ('sbic.origin', b'sbic.labels/3/42')
        """
        return HEADER, str(self).encode()


def origin_of(headers: Iterable[Header], topic: str, partitions: int) -> Origin | None:
    """The origin in the headers of a record of this topic; None if there is none or it is invalid.

    >>> origin_of([Origin("sbic.labels", 3, 42).header()], "sbic.labels", partitions=8)
    Origin(topic='sbic.labels', partition=3, offset=42)
    >>> origin_of([Origin("sbic.labels", 8, 42).header()], "sbic.labels", partitions=8)
    """
    found = next((value for name, value in headers if name == HEADER), None)
    place, _, offset = (found or b"").rpartition(b"/")
    name, _, partition = place.rpartition(b"/")
    if name != topic.encode() or not (_is_number(partition) and _is_number(offset)):
        return None
    origin = Origin(topic, int(partition), int(offset))
    return origin if origin.partition < partitions else None


def _is_number(digits: bytes) -> bool:
    return digits.isdigit() and len(digits) < MOST_DIGITS


def forwarded_headers(headers: Sequence[Header], origin: Origin) -> list[Header]:
    """The first headers, as many as fit, and the header with the origin.

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
    """A hash of origin and content: the same when the record is forwarded again.

    >>> place = Origin("labels", 3, 42)
    >>> mark_of(place, b"one") == mark_of(place, b"one") != mark_of(place, b"other")
    True
    """
    content = b"%d/%d/%s" % (origin.partition, origin.offset, value or b"")
    return int.from_bytes(blake2b(content, digest_size=7).digest())
