"""What the headers of a dead letter say, and the marks of those that were replayed.

A mark is a record of the dead-letter topic too: it has the origin of the letter and no value. It is
younger than its letter, so it is kept for as long.
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


class Said(NamedTuple):
    """What headers say of a dead letter, or of one that was replayed."""

    origin: Origin
    reason: str
    message: str
    is_truncated: bool
    is_replayed: bool


def read_headers(headers: Headers) -> Said | None:
    """What the headers of a record say; None if it is no dead letter of ours.

    >>> from pipeline.records.bad import BadRecord, Reason
    >>> from pipeline.records.dead_letters import dead_letter
    >>> bad = BadRecord(Reason.BAD_ID, "'task' is empty")
    >>> said = read_headers(dead_letter(Origin("sbic.labels", 3, 42), b"w1", b"{...}", bad).headers)
    >>> str(said.origin), said.reason, said.message, said.is_replayed
    ('sbic.labels/3/42', 'bad-id', "'task' is empty", False)
    >>> read_headers(mark_of(said.origin)).is_replayed, read_headers([("x", b"y")])
    (True, None)
    """
    found = dict(headers)
    try:
        topic, partition, offset = found[TOPIC].decode(), int(found[PARTITION]), int(found[OFFSET])
    except (KeyError, ValueError):  # text that is not UTF-8 is a ValueError too
        return None
    return Said(
        Origin(topic, partition, offset),
        found.get(REASON, b"").decode(errors="replace"),
        found.get(MESSAGE, b"").decode(errors="replace"),
        TRUNCATED in found,
        REPLAYED in found,
    )


def mark_of(origin: Origin) -> list[tuple[str, bytes]]:
    """The headers of the record that says that a dead letter was replayed."""
    return [
        (TOPIC, origin.topic.encode()),
        (PARTITION, b"%d" % origin.partition),
        (OFFSET, b"%d" % origin.offset),
        (REPLAYED, b"true"),
    ]
