"""Dead letters: the raw bytes as they came, the reason in headers as Kafka Connect names them."""

from typing import NamedTuple

from pipeline.records.bad import BadRecord
from pipeline.records.origin import Origin

MAX_BYTES = 3 << 19  # of key and value: half again as much as a label may have


class DeadLetter(NamedTuple):
    """A record for the dead-letter topic."""

    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes]]


def dead_letter(
    origin: Origin, key: bytes | None, value: bytes | None, bad: BadRecord
) -> DeadLetter:
    """The dead letter of a record that came from there and cannot be used.

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
        ("__connect.errors.exception.message", bad.message.encode()),
    ]
    # compressed, a record of any size fits into the labels topic, yet not here
    if len(key or b"") + len(value or b"") > MAX_BYTES:
        headers.append(("sbic.truncated", b"true"))
        key = key and key[: MAX_BYTES // 3]
        value = value and value[: MAX_BYTES // 3 * 2]
    return DeadLetter(key, value, headers)
