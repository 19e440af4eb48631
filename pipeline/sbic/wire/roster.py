"""The roster, an input: `{"worker": "ann", "blocked": true, "name": "Ann"}`.

Every field but `worker` is optional, and an absent field is as `null`: the last record of a worker
is all that is said of them. A record without a value (a tombstone) withdraws it. Unknown fields are
ignored.
"""

from typing import Any, NamedTuple

from orjson import dumps

from sbic.foreign import shown
from sbic.wire.bad import (
    ID_MAX_BYTES,
    BadRecord,
    Reason,
    Value,
    id_of_key,
    parser,
    read_id,
    read_object,
)

MAX_BYTES = 1 << 20  # of a value, as for labels


class Entry(NamedTuple):
    """What the owner of a project says of a worker.

    `blocked`: whether they get assignments, whatever the rule says; None if the rule decides.
    `name`: what people see beside the id.
    """

    blocked: bool | None = None
    name: str | None = None


NOTHING_SAID = Entry()


@parser
def parse_roster(key: bytes | None, value: Value) -> tuple[str, Entry]:
    """The worker and the entry in a record.

    >>> parse_roster(b"ann", b'{"worker": "ann", "blocked": true}')
    ('ann', Entry(blocked=True, name=None))
    >>> parse_roster(b"ann", None)
    ('ann', Entry(blocked=None, name=None))
    """
    if value is None:
        return id_of_key(key), NOTHING_SAID
    record = read_object(value, MAX_BYTES)
    worker = read_id(record, "worker")
    return worker, Entry(_read_blocked(record.get("blocked")), _read_name(record.get("name")))


def _read_blocked(value: Any) -> bool | None:
    if value is None or type(value) is bool:
        return value
    problem = f"'blocked' must be true, false or null, not {shown(value)}"
    raise BadRecord(Reason.BAD_FIELD, problem)


def _read_name(value: Any) -> str | None:
    if value is None or (type(value) is str and 0 < len(value.encode()) <= ID_MAX_BYTES):
        return value
    needs = f"a string of 1 to {ID_MAX_BYTES} bytes in UTF-8, or null"
    raise BadRecord(Reason.BAD_FIELD, f"'name' must be {needs}, not {shown(value)}")


def encode_roster(worker: str, entry: Entry) -> bytes:
    """The value of a worker's record; what is None is left out.

    >>> encode_roster("ann", Entry(blocked=False))
    b'{"worker":"ann","blocked":false}'
    """
    said = {name: value for name, value in entry._asdict().items() if value is not None}
    return dumps({"worker": worker, **said})
