"""The headers of dead letters, and the records that mark them as replayed.

Such a mark is on the dead-letter topic too: it has the origin of the letter and no value. It is
newer than its letter, so it does not expire before it.
"""

from collections.abc import Iterable
from typing import NamedTuple

from pipeline.records.origin import Origin

TOPIC = "__connect.errors.topic"
PARTITION = "__connect.errors.partition"
OFFSET = "__connect.errors.offset"
REASON = "__connect.errors.exception.class.name"
MESSAGE = "__connect.errors.exception.message"
TRUNCATED = "sbic.truncated"
REPLAYED = "sbic.replayed"

Headers = Iterable[tuple[str, bytes]]


class LetterHeaders(NamedTuple):
    """The headers of a dead letter, or of the mark that it was replayed."""

    origin: Origin
    reason: str
    message: str
    is_truncated: bool
    is_replayed: bool


def read_headers(headers: Headers) -> LetterHeaders | None:
    """The headers of a dead letter or mark; None for any other record.

    >>> from pipeline.records.bad import BadRecord, Reason
    >>> from pipeline.records.dead_letters import dead_letter
    >>> bad = BadRecord(Reason.BAD_ID, "'task' is empty")
    >>> letter = dead_letter(Origin("sbic.labels", 3, 42), b"w1", b"{...}", bad)
    >>> found = read_headers(letter.headers)
    >>> str(found.origin), found.reason, found.message, found.is_replayed
    ('sbic.labels/3/42', 'bad-id', "'task' is empty", False)
    >>> read_headers(mark_of(found.origin)).is_replayed, read_headers([("x", b"y")])
    (True, None)
    """
    found = dict(headers)
    try:
        topic, partition, offset = found[TOPIC].decode(), int(found[PARTITION]), int(found[OFFSET])
    except (KeyError, ValueError):  # text that is not UTF-8 is a ValueError too
        return None
    return LetterHeaders(
        Origin(topic, partition, offset),
        found.get(REASON, b"").decode(errors="replace"),
        found.get(MESSAGE, b"").decode(errors="replace"),
        TRUNCATED in found,
        REPLAYED in found,
    )


def mark_of(origin: Origin) -> list[tuple[str, bytes]]:
    """The headers of the record that marks a dead letter as replayed."""
    return [
        (TOPIC, origin.topic.encode()),
        (PARTITION, b"%d" % origin.partition),
        (OFFSET, b"%d" % origin.offset),
        (REPLAYED, b"true"),
    ]
