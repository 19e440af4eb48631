"""Tasks, the other input: `{"task": "t1", "prior": 0.3, "gold": 1, "status": "closed"}`.

Every field but `task` may be absent, which leaves it as it is, or `null`, which puts it back to
what it is for a task nobody has described. A record without a value (a tombstone) closes the task
of its key. Unknown fields are ignored.
"""

from typing import Any, Literal, TypedDict, cast

from orjson import dumps

from pipeline.records.bad import ID_MAX_BYTES, BadRecord, Reason, read_id, read_object

MAX_BYTES = 1 << 20  # of a value, as for labels


class Description(TypedDict, total=False):
    """What a record says of a task; a field that is not there stays as it is."""

    task: str
    prior: float | None
    gold: Literal[1, -1] | None
    status: Literal["open", "closed"] | None


def parse_task(key: bytes | None, value: bytes | None) -> Description:
    """What a record says of its task, or `BadRecord`.

    >>> parse_task(b"t1", b'{"task": "t1", "prior": 0.3, "gold": null, "more": 1}')
    {'task': 't1', 'prior': 0.3, 'gold': None}
    >>> parse_task(b"t1", None)
    {'task': 't1', 'status': 'closed'}
    >>> parse_task(None, b'{"task": "t1", "prior": 1}')
    Traceback (most recent call last):
    pipeline.records.bad.BadRecord: 'prior' must be a number between 0 and 1, or null, not 1
    """
    if value is None:
        return {"task": _task_of(key), "status": "closed"}
    record = read_object(value, MAX_BYTES)
    found: dict[str, Any] = {"task": read_id(record, "task")}
    for name, (is_good, reason, needs) in FIELDS.items():
        if name in record:
            field = record[name]
            if field is not None and not is_good(field):
                problem = f"{name!r} must be {needs}, or null, not {field!r:.40}"
                raise BadRecord(reason, problem)
            found[name] = field
    return cast(Description, found)


def _task_of(key: bytes | None) -> str:
    """The task that a tombstone closes: it has nothing but its key."""
    if not key:
        raise BadRecord(Reason.NULL_VALUE, "the record has neither a value nor a key")
    if len(key) > ID_MAX_BYTES:
        raise BadRecord(Reason.BAD_ID, f"the key has {len(key)} bytes, more than {ID_MAX_BYTES}")
    try:
        return key.decode()
    except UnicodeDecodeError:
        raise BadRecord(Reason.BAD_ID, "the key is not text in UTF-8") from None


def _is_prior(value: object) -> bool:
    return type(value) is float and 0 < value < 1


def _is_gold(value: object) -> bool:
    return type(value) is int and value in (1, -1)


def _is_status(value: object) -> bool:
    return value == "open" or value == "closed"


FIELDS = {
    "prior": (_is_prior, Reason.BAD_PRIOR, "a number between 0 and 1"),
    "gold": (_is_gold, Reason.BAD_GOLD, "1 or -1"),
    "status": (_is_status, Reason.BAD_STATUS, "'open' or 'closed'"),
}


def encode_task(description: Description) -> bytes:
    """The value of a task's record.

    >>> encode_task({"task": "t1", "prior": 0.3})
    b'{"task":"t1","prior":0.3}'
    """
    return dumps(description)
