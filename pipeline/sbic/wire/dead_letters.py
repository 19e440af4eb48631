"""Records that move: the origin of forwarded ones, and dead letters with their reason."""

from collections.abc import Iterable, Sequence
from hashlib import blake2b
from typing import NamedTuple

from sbic.wire.bad import BadRecord

# The origin of a forwarded record, in a header: a record that is forwarded twice counts once.
#
# Users can write that header too. It counts only together with a seal. Duplicates are recognised by
# origin and content together.


ORIGIN_HEADER = "sbic.origin"
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
        """Return the origin as `str` writes it, or `ValueError`."""
        topic, partition, offset = text.rsplit("/", 2)
        return cls(topic, int(partition), int(offset))


def origin_header(headers: Iterable[Header]) -> bytes | None:
    """Return the value of the header with the origin, if there is one."""
    return next((value for name, value in headers if name == ORIGIN_HEADER), None)


def read_origin(text: bytes, topic: str, partitions: int) -> Origin | None:
    """Return the origin of a record of this topic, as `str` writes it; None if it is invalid.

    >>> read_origin(b"sbic.labels/3/42", "sbic.labels", partitions=8)
    Origin(topic='sbic.labels', partition=3, offset=42)
    >>> read_origin(b"sbic.labels/8/42", "sbic.labels", partitions=8)
    """
    place, _, offset = text.rpartition(b"/")
    name, _, partition = place.rpartition(b"/")
    if name != topic.encode() or not (_is_number(partition) and _is_number(offset)):
        return None
    origin = Origin(topic, int(partition), int(offset))
    return origin if origin.partition < partitions else None


def _is_number(digits: bytes) -> bool:
    return digits.isdigit() and len(digits) < MOST_DIGITS


def forwarded_headers(headers: Sequence[Header], origin: Header) -> list[Header]:
    """Return the first headers, as many as fit, and the header with the origin.

    >>> origin = "sbic.origin", b"labels/3/42"
    >>> forwarded_headers([("trace", b"7"), ("note", bytes(99_999))], origin)
    [('trace', b'7'), ('sbic.origin', b'labels/3/42')]
    """
    kept, size = [], 0
    for name, value in headers:
        size += len(name.encode()) + len(value or b"") + HEADER_ROOM
        if size > HEADERS_BYTES:
            break
        if name != ORIGIN_HEADER:
            kept.append((name, value))
    return [*kept, origin]


def content_mark(origin: Origin, value: bytes | None) -> int:
    """Return a hash of origin and content: the same when the record is forwarded again.

    >>> place = Origin("labels", 3, 42)
    >>> content_mark(place, b"one") == content_mark(place, b"one") != content_mark(place, b"other")
    True
    """
    content = b"%d/%d/%s" % (origin.partition, origin.offset, value or b"")
    return int.from_bytes(blake2b(content, digest_size=7).digest())


# Dead letters: the original key and value, and the reason in the headers of Kafka Connect.
#
# The mark that one was replayed is on the dead-letter topic too: it has the origin of the letter
# and no value. It is newer than its letter, so it does not expire before it.


TOPIC = "__connect.errors.topic"
PARTITION = "__connect.errors.partition"
OFFSET = "__connect.errors.offset"
REASON = "__connect.errors.exception.class.name"
MESSAGE = "__connect.errors.exception.message"
TRUNCATED = "sbic.truncated"
REPLAYED = "sbic.replayed"

MAX_BYTES = 3 << 19  # of key and value: 1.5 times the limit of a label


class DeadLetter(NamedTuple):
    """A record for the dead-letter topic."""

    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes]]


def dead_letter(
    origin: Origin, key: bytes | None, value: bytes | None, bad: BadRecord
) -> DeadLetter:
    """Return the dead letter of a record with this origin that cannot be used.

    >>> from sbic.wire.bad import Reason
    >>> bad = BadRecord(Reason.BAD_ID, "'task' is empty")
    >>> for header in dead_letter(Origin("sbic.labels", 3, 42), b"w1", b"{...}", bad).headers:
    ...     print(*header)
    __connect.errors.topic b'sbic.labels'
    __connect.errors.partition b'3'
    __connect.errors.offset b'42'
    __connect.errors.exception.class.name b'bad-id'
    __connect.errors.exception.message b"'task' is empty"
    """
    headers = [
        *_origin_headers(origin),
        (REASON, bad.reason.encode()),
        (MESSAGE, bad.message.encode(errors="replace")),
    ]
    # a compressed record of any size fits into the labels topic, but not into this one
    if len(key or b"") + len(value or b"") > MAX_BYTES:
        headers.append((TRUNCATED, b"true"))
        key = key and key[: MAX_BYTES // 3]
        value = value and value[: MAX_BYTES // 3 * 2]
    return DeadLetter(key, value, headers)


class LetterHeaders(NamedTuple):
    """The headers of a dead letter, or of the mark that it was replayed."""

    origin: Origin
    reason: str
    message: str
    is_truncated: bool
    is_replayed: bool


def read_headers(headers: Iterable[Header]) -> LetterHeaders | None:
    """Return the headers of a dead letter or mark; None for any other record.

    >>> from sbic.wire.bad import BadRecord, Reason
    >>> bad = BadRecord(Reason.BAD_ID, "'task' is empty")
    >>> letter = dead_letter(Origin("sbic.labels", 3, 42), b"w1", b"{...}", bad)
    >>> found = read_headers(letter.headers)
    >>> str(found.origin), found.reason, found.message, found.is_replayed
    ('sbic.labels/3/42', 'bad-id', "'task' is empty", False)
    >>> read_headers(replayed_mark(found.origin)).is_replayed, read_headers([("x", b"y")])
    (True, None)
    """
    found = {name: value or b"" for name, value in headers}
    partition, offset = found.get(PARTITION, b""), found.get(OFFSET, b"")
    if TOPIC not in found or not (_is_number(partition) and _is_number(offset)):
        return None
    return LetterHeaders(
        Origin(found[TOPIC].decode(errors="replace"), int(partition), int(offset)),
        found.get(REASON, b"").decode(errors="replace"),
        found.get(MESSAGE, b"").decode(errors="replace"),
        TRUNCATED in found,
        REPLAYED in found,
    )


def replayed_mark(origin: Origin) -> list[tuple[str, bytes]]:
    """Return the headers of the record that marks a dead letter as replayed."""
    return [*_origin_headers(origin), (REPLAYED, b"true")]


def _origin_headers(origin: Origin) -> list[tuple[str, bytes]]:
    partition, offset = b"%d" % origin.partition, b"%d" % origin.offset
    return [(TOPIC, origin.topic.encode()), (PARTITION, partition), (OFFSET, offset)]
