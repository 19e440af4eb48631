"""Requests for tasks, and assignments: which task a worker answers next, or why none."""

from enum import StrEnum
from typing import Any, Literal, NamedTuple, NoReturn

from orjson import dumps, loads

from sbic.foreign import shown
from sbic.wire.bad import ID_SURELY_SHORT, BadRecord, Reason, parser, read_id, read_object
from sbic.wire.columns import is_id

# Requests: `{"worker": "w1", "count": 1}`, a free worker asks for tasks.
#
# `count` is from 1 to 100, by default 1. Unknown fields are ignored. The key is not checked here: a
# request whose key is not its worker is forwarded to the right partition.


MAX_COUNT = 100
MAX_BYTES = 1 << 16  # of a value: a valid request still fits when it is forwarded

ParsedRequest = tuple[str, int]
"""Worker and number of tasks; a plain tuple, as for labels."""


def parse_request(value: bytes | None) -> ParsedRequest:
    """Return the request in a record's value, or `BadRecord`.

    >>> parse_request(b'{"worker": "w1"}')
    ('w1', 1)
    >>> parse_request(b'{"worker": "w1", "count": 0}')
    Traceback (most recent call last):
    sbic.wire.bad.BadRecord: 'count' must be a whole number from 1 to 100, not 0
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
def _parse_carefully(value: bytes | None) -> ParsedRequest:
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
    """Return the value of a request's record.

    >>> encode_request("w1")
    b'{"worker":"w1","count":1}'
    """
    return dumps({"worker": worker, "count": count})


# Assignments: which task a worker answers next, why there is none, and how leases ended.
#
# The topic has three kinds of records, all keyed by worker:
#
# - a lease: `{"worker", "task", "id", "policy", "issued_at", "expires_at"}`
# - a refusal: `{"worker", "task": null, "reason", "id", "issued_at"}`
# - the end of a lease: `{"worker", "task", "id", "ended"}`, for the other instances; clients
#   ignore it.
#
# An id names the request that it answers: `<partition>-<offset>-<number>` of the requests topic, or
# `label-<partition>-<offset>-<number>` where a label was the request.


Ended = Literal["answered", "skipped"]
LABEL = "label"  # the source of requests that are labels


class Refusal(StrEnum):
    """Why a worker gets no task; also the value of a metric's label."""

    NO_OPEN_TASK = "no-open-task"
    ALL_ANSWERED = "all-answered"
    WORKER_BLOCKED = "worker-blocked"
    BUDGET_SPENT = "budget-spent"
    OTHER_TIER = "other-tier"


class AssignmentId(NamedTuple):
    """The request that an assignment answers, and the assignment's number among its answers.

    >>> str(AssignmentId(3, 42, 0)), str(AssignmentId(3, 42, 0, source="label"))
    ('3-42-0', 'label-3-42-0')
    """

    partition: int
    offset: int
    number: int
    source: str = ""

    @classmethod
    def parse(cls, text: str) -> "AssignmentId":
        """Return the id in a record, or ValueError.

        >>> AssignmentId.parse("label-3-42-0")
        AssignmentId(partition=3, offset=42, number=0, source='label')
        """
        *source, partition, offset, number = text.split("-")
        return cls(int(partition), int(offset), int(number), "-".join(source))

    def __str__(self) -> str:
        place = f"{self.partition}-{self.offset}-{self.number}"
        return f"{self.source}-{place}" if self.source else place


class AssignmentRecord(NamedTuple):
    """A record of the topic: a refusal has no `task`; `ended` marks the end of a lease."""

    worker: str
    task: str | None
    id: AssignmentId
    expires_at: int
    ended: bool


def encode_lease(
    worker: str, task: str, name: AssignmentId, policy: str, issued_at: int, expires_at: int
) -> bytes:
    """Return the value of a lease: the worker gets the task; times in milliseconds.

    >>> encode_lease("w1", "t1", AssignmentId(3, 42, 0), "uniform", 1, 2)
    b'{"worker":"w1","task":"t1","id":"3-42-0","policy":"uniform","issued_at":1,"expires_at":2}'
    """
    return dumps(
        {
            "worker": worker,
            "task": task,
            "id": str(name),
            "policy": policy,
            "issued_at": issued_at,
            "expires_at": expires_at,
        }
    )


def encode_refusal(worker: str, reason: Refusal, name: AssignmentId, issued_at: int) -> bytes:
    """Return the value of a refusal: the reason why the worker gets no task.

    >>> encode_refusal("w1", Refusal.NO_OPEN_TASK, AssignmentId(3, 42, 0), 1)
    b'{"worker":"w1","task":null,"reason":"no-open-task","id":"3-42-0","issued_at":1}'
    """
    return dumps(
        {"worker": worker, "task": None, "reason": reason, "id": str(name), "issued_at": issued_at}
    )


def encode_end(worker: str, task: str, name: AssignmentId, ended: Ended) -> bytes:
    """Return the value of the end of a lease.

    >>> encode_end("w1", "t1", AssignmentId(3, 42, 0), "answered")
    b'{"worker":"w1","task":"t1","id":"3-42-0","ended":"answered"}'
    """
    return dumps({"worker": worker, "task": task, "id": str(name), "ended": ended})


def parse_assignment(value: bytes | None) -> AssignmentRecord:
    """Return the assignment in a record's value, or `BadRecord`.

    >>> parse_assignment(encode_lease("w1", "t1", AssignmentId(3, 42, 0), "uniform", 1, 2))[:2]
    ('w1', 't1')
    >>> refusal = encode_refusal("w1", Refusal.NO_OPEN_TASK, AssignmentId(3, 42, 0), 1)
    >>> parse_assignment(refusal).task is None
    True
    """
    try:
        record = loads(value)  # type: ignore[arg-type]  # None is not JSON either
        worker, task, name = record["worker"], record["task"], record["id"]
        ended = "ended" in record
        expires_at = record["expires_at"] if task is not None and not ended else 0
        if (
            type(worker) is type(name) is str
            and is_id(worker)
            and is_id(name)
            and (task is None or (type(task) is str and is_id(task)))
            and type(expires_at) is int
        ):
            return AssignmentRecord(worker, task, AssignmentId.parse(name), expires_at, ended)
    except Exception:
        pass
    return _refuse(value)


@parser
def _refuse(value: bytes | None) -> NoReturn:
    """Raise the problem of a record; with none, it is not one of the three kinds."""
    record: dict[str, Any] = read_object(value)
    read_id(record, "worker")
    read_id(record, "id")
    raise BadRecord(Reason.BAD_FIELD, "not an assignment, a refusal or the end of a lease")
