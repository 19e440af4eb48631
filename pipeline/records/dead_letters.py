"""Dead letters: the original key and value, and the reason in the headers of Kafka Connect."""

from typing import NamedTuple

from pipeline.records.bad import BadRecord
from pipeline.records.origin import Origin

MAX_BYTES = 3 << 19  # of key and value: 1.5 times the limit of a label


class DeadLetter(NamedTuple):
    """A record for the dead-letter topic."""

    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes]]


def dead_letter(
    origin: Origin, key: bytes | None, value: bytes | None, bad: BadRecord
) -> DeadLetter:
    """The dead letter of a record with this origin that cannot be used.

    >>> from pipeline.records.bad import Reason
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
        ("__connect.errors.topic", origin.topic.encode()),
        ("__connect.errors.partition", b"%d" % origin.partition),
        ("__connect.errors.offset", b"%d" % origin.offset),
        ("__connect.errors.exception.class.name", bad.reason.encode()),
        ("__connect.errors.exception.message", bad.message.encode(errors="replace")),
    ]
    # a compressed record of any size fits into the labels topic, but not into this one
    if len(key or b"") + len(value or b"") > MAX_BYTES:
        headers.append(("sbic.truncated", b"true"))
        key = key and key[: MAX_BYTES // 3]
        value = value and value[: MAX_BYTES // 3 * 2]
    return DeadLetter(key, value, headers)
