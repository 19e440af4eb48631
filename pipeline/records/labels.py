"""Labels, the input: `{"task": "t1", "worker": "w1", "label": 1}`, checked in the hot path.

A label is 1, -1, 0 for a skip or `null` to take an answer back. Unknown fields are ignored. The
key is no part of this: a label whose key is not its worker counts all the same.
"""

from orjson import JSONDecodeError, dumps, loads

from pipeline.records.bad import (
    ID_SURELY_SHORT,
    BadRecord,
    Reason,
    read_field,
    read_id,
    read_object,
)

MAX_BYTES = 1 << 20  # of a value: the most that Kafka clients send by default

Label = tuple[str, str, int | None]
"""Task, worker and label; a tuple, since making anything else costs as much as parsing."""


def parse_label(value: bytes | None) -> Label:
    """The label in a record's value, or `BadRecord`.

    >>> parse_label(b'{"task": "t1", "worker": "w1", "label": -1}')
    ('t1', 'w1', -1)
    >>> parse_label(b'{"task": "t1", "worker": "w1", "label": true}')
    Traceback (most recent call last):
    pipeline.records.bad.BadRecord: 'label' must be 1, -1, 0 or null, not True
    """
    try:
        record = loads(value)  # type: ignore[arg-type]  # None is not JSON either
        task = record["task"]
        worker = record["worker"]
        label = record["label"]
        if (
            type(task) is str
            and type(worker) is str
            and 0 < len(task) <= ID_SURELY_SHORT
            and 0 < len(worker) <= ID_SURELY_SHORT
            and (label is None or (type(label) is int and -1 <= label <= 1))
            and len(value) <= MAX_BYTES  # type: ignore[arg-type]
        ):
            return task, worker, label
    except (JSONDecodeError, TypeError, KeyError):
        pass
    return _parse_carefully(value)


def _parse_carefully(value: bytes | None) -> Label:
    """Takes what the fast path was not sure of, and says what is wrong with the rest."""
    record = read_object(value, MAX_BYTES)
    task = read_id(record, "task")
    worker = read_id(record, "worker")
    label = read_field(record, "label")
    if label is None or (type(label) is int and -1 <= label <= 1):
        return task, worker, label
    raise BadRecord(Reason.BAD_LABEL, f"'label' must be 1, -1, 0 or null, not {label!r:.40}")


def encode_label(task: str, worker: str, label: int | None) -> bytes:
    """The value of a label's record.

    >>> encode_label("t1", "w1", 1)
    b'{"task":"t1","worker":"w1","label":1}'
    """
    return dumps({"task": task, "worker": worker, "label": label})
