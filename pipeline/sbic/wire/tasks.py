"""Tasks, the other input: `{"task": "t1", "prior": 0.3, "gold": 1, "status": "closed"}`.

Where classes have names, `gold` is one of them and `prior` an object of probabilities by name.
Every field but `task` is optional: an absent field is left unchanged, and `null` resets it to its
default. A record without a value (a tombstone) closes the task of its key. Unknown fields are
ignored.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, Literal, TypedDict, cast

from orjson import dumps

from sbic.classes import Classes
from sbic.foreign import shown
from sbic.wire.bad import BadRecord, Reason, Value, id_of_key, parser, read_id, read_object
from sbic.wire.rendering import Rendering, rendering_of

MAX_BYTES = 1 << 20  # of a value, as for labels


class Description(TypedDict, total=False):
    """A record of the tasks topic; absent fields are left unchanged.

    With the classes -1 and 1 the prior is that of 1, otherwise there is one for each class.
    """

    task: str
    prior: float | dict[str, float] | None
    gold: int | str | None
    status: Literal["open", "closed"] | None


class ParsedDescription(TypedDict, total=False):
    """The same with class numbers: a prior for each class in order, and the number of gold."""

    task: str
    prior: list[float] | None
    gold: int | None
    status: Literal["open", "closed"] | None


TaskParser = Callable[[bytes | None, Value], ParsedDescription]


def task_parser(classes: Classes) -> TaskParser:
    """Return a parser for the keys and values of the tasks of a project with these classes.

    >>> from sbic.classes import SIGNS
    >>> task_parser(SIGNS)(b"t1", b'{"task": "t1", "prior": 0.25, "gold": -1}')
    {'task': 't1', 'prior': [0.75, 0.25], 'gold': 0}
    >>> parse = task_parser(Classes.parse("cat,dog"))
    >>> parse(b"t1", b'{"task": "t1", "prior": {"dog": 0.3, "cat": 0.7}, "gold": null}')
    {'task': 't1', 'prior': [0.7, 0.3], 'gold': None}
    >>> parse(b"t1", None)
    {'task': 't1', 'status': 'closed'}
    >>> parse(b"t1", b'{"task": "t1", "prior": {"cat": 0.7}}')
    Traceback (most recent call last):
    sbic.wire.bad.BadRecord: 'prior' has no probability of 'dog'
    """
    rendering = rendering_of(classes)
    readers: dict[str, Callable[[Any], Any]] = {
        "prior": rendering.read_prior,
        "gold": partial(_read_gold, rendering),
        "status": _read_status,
    }

    @parser
    def parse(key: bytes | None, value: Value) -> ParsedDescription:
        if value is None:
            return {"task": id_of_key(key), "status": "closed"}
        record = read_object(value, MAX_BYTES)
        found: dict[str, Any] = {"task": read_id(record, "task")}
        for name, read in readers.items():
            if name in record:
                field = record[name]
                found[name] = None if field is None else read(field)
        return cast(ParsedDescription, found)

    return parse


def _read_gold(rendering: Rendering, value: Any) -> int:
    number = rendering.classes.number_of(value)
    if number is None:
        problem = f"'gold' must be {rendering.needs_class}, or null, not {shown(value)}"
        raise BadRecord(Reason.BAD_GOLD, problem)
    return number


def _read_status(value: Any) -> Literal["open", "closed"]:
    if not _is_status(value):
        problem = f"'status' must be 'open' or 'closed', or null, not {shown(value)}"
        raise BadRecord(Reason.BAD_STATUS, problem)
    return cast(Literal["open", "closed"], value)


def _is_status(value: object) -> bool:
    return value == "open" or value == "closed"


def encode_task(description: Description) -> bytes:
    """Return the value of a task's record.

    >>> encode_task({"task": "t1", "prior": 0.3})
    b'{"task":"t1","prior":0.3}'
    """
    return dumps(description)
