"""Tasks, the other input: `{"task": "t1", "prior": 0.3, "gold": 1, "status": "closed"}`.

Where classes have names, `gold` is one of them and `prior` an object of probabilities by name.
Every field but `task` is optional: an absent field is left unchanged, and `null` resets it to its
default. A record without a value (a tombstone) closes the task of its key. Unknown fields are
ignored.
"""

from collections.abc import Callable
from math import fsum
from typing import Any, Literal, TypedDict, cast

from orjson import dumps

from sbic.classes import SUM_TOLERANCE, Classes
from sbic.foreign import shown
from sbic.wire.bad import BadRecord, Reason, Value, id_of_key, parser, read_id, read_object

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
    """A parser for the keys and values of the tasks of a project with these classes.

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
    readers: dict[str, Callable[[Any, Classes], Any]] = {
        "prior": _read_prior_of_plus if classes.is_signs else _read_priors,
        "gold": _read_gold,
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
                found[name] = None if field is None else read(field, classes)
        return cast(ParsedDescription, found)

    return parse


def _read_prior_of_plus(value: Any, _classes: Classes) -> list[float]:
    """The prior of -1 and 1, from that of 1."""
    if not _is_prior(value):
        problem = f"'prior' must be a number between 0 and 1, or null, not {shown(value)}"
        raise BadRecord(Reason.BAD_PRIOR, problem)
    return [1 - value, value]


def _read_priors(value: Any, classes: Classes) -> list[float]:
    """The prior of each class, from an object by name, normalised to sum to 1."""
    if type(value) is not dict:
        needs = "an object with a probability of each class, or null"
        raise BadRecord(Reason.BAD_PRIOR, f"'prior' must be {needs}, not {shown(value)}")
    for name in value:
        if classes.number_of(name) is None:
            problem = f"'prior' has {shown(name)}, and the classes are {classes.listed()}"
            raise BadRecord(Reason.BAD_PRIOR, problem)
    for name in classes.names:
        if name not in value:
            raise BadRecord(Reason.BAD_PRIOR, f"'prior' has no probability of {shown(name)}")
        if not _is_prior(value[name]):
            needs = "a number between 0 and 1"
            problem = f"the 'prior' of {shown(name)} must be {needs}, not {shown(value[name])}"
            raise BadRecord(Reason.BAD_PRIOR, problem)
    total = fsum(value.values())
    if abs(total - 1) > SUM_TOLERANCE:
        raise BadRecord(Reason.BAD_PRIOR, f"'prior' must add up to 1, not to {total:.9g}")
    return [value[name] / total for name in classes.names]


def _read_gold(value: Any, classes: Classes) -> int:
    number = classes.number_of(value)
    if number is None:
        needs = "1 or -1" if classes.is_signs else f"one of {classes.listed()}"
        raise BadRecord(Reason.BAD_GOLD, f"'gold' must be {needs}, or null, not {shown(value)}")
    return number


def _read_status(value: Any, _classes: Classes) -> Literal["open", "closed"]:
    if not _is_status(value):
        problem = f"'status' must be 'open' or 'closed', or null, not {shown(value)}"
        raise BadRecord(Reason.BAD_STATUS, problem)
    return cast(Literal["open", "closed"], value)


def _is_prior(value: object) -> bool:
    return type(value) is float and 0 < value < 1


def _is_status(value: object) -> bool:
    return value == "open" or value == "closed"


def encode_task(description: Description) -> bytes:
    """The value of a task's record.

    >>> encode_task({"task": "t1", "prior": 0.3})
    b'{"task":"t1","prior":0.3}'
    """
    return dumps(description)
