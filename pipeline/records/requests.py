"""Requests: `{"worker": "w1", "count": 1}`, a free worker asks for tasks.

`count` is from 1 to 100, by default 1. Unknown fields are ignored. The key is not checked here: a
request whose key is not its worker is forwarded to the right partition.
"""

from orjson import dumps, loads

from pipeline.foreign import shown
from pipeline.records.bad import ID_SURELY_SHORT, BadRecord, Reason, parser, read_id, read_object

MAX_COUNT = 100
MAX_BYTES = 1 << 16  # of a value: a valid request still fits when it is forwarded

Request = tuple[str, int]
"""Worker and number of tasks; a plain tuple, as for labels."""


def parse_request(value: bytes | None) -> Request:
    """The request in a record's value, or `BadRecord`.

    >>> parse_request(b'{"worker": "w1"}')
    ('w1', 1)
    >>> parse_request(b'{"worker": "w1", "count": 0}')
    Traceback (most recent call last):
    pipeline.records.bad.BadRecord: 'count' must be a whole number from 1 to 100, not 0
    """
    try:
        record = loads(value)  # type: ignore[arg-type]  # None is not JSON either
        worker = record["worker"]
        count = record.get("count", 1)
        if (
            type(worker) is str
            and 0 < len(worker) <= ID_SURELY_SHORT
            and type(count) is int
            and 1 <= count <= MAX_COUNT
            and len(value) <= MAX_BYTES  # type: ignore[arg-type]
        ):
            return worker, count
    except Exception:
        pass
    return _parse_carefully(value)


@parser
def _parse_carefully(value: bytes | None) -> Request:
    """Parse what the fast path did not accept, or raise `BadRecord` with the problem."""
    record = read_object(value, MAX_BYTES)
    worker = read_id(record, "worker")
    count = record.get("count", 1)
    if type(count) is int and 1 <= count <= MAX_COUNT:
        return worker, count
    raise BadRecord(
        Reason.BAD_COUNT,
        f"'count' must be a whole number from 1 to {MAX_COUNT}, not {shown(count)}",
    )


def encode_request(worker: str, count: int = 1) -> bytes:
    """The value of a request's record.

    >>> encode_request("w1")
    b'{"worker":"w1","count":1}'
    """
    return dumps({"worker": worker, "count": count})
