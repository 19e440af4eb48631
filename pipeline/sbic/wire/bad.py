"""Why a record cannot be used, and checks that several kinds of records share."""

from collections.abc import Callable
from enum import StrEnum
from functools import wraps
from typing import Any, ParamSpec, TypeVar

from orjson import JSONDecodeError, JSONEncodeError, dumps, loads

P = ParamSpec("P")
R = TypeVar("R")

ID_MAX_BYTES = 256
ID_SURELY_SHORT = ID_MAX_BYTES // 4  # characters: none takes more than 4 bytes in UTF-8
SURELY_SHALLOW = 200  # brackets: orjson writes what is nested up to 254 deep


class Reason(StrEnum):
    """The reasons, a closed set: they are also values of a metric's label."""

    NULL_VALUE = "null-value"
    TOO_LARGE = "too-large"
    NOT_JSON = "not-json"
    NOT_OBJECT = "not-object"
    MISSING_FIELD = "missing-field"
    BAD_ID = "bad-id"
    BAD_LABEL = "bad-label"
    BAD_PRIOR = "bad-prior"
    BAD_GOLD = "bad-gold"
    BAD_STATUS = "bad-status"
    BAD_COUNT = "bad-count"
    BAD_FIELD = "bad-field"
    NOT_OURS = "not-ours"  # on a topic that only instances write to
    UNREADABLE = "unreadable"  # a fault of the parser, which costs this record only


class BadRecord(ValueError):
    """A record that cannot be used: the reason, and a message for the sender."""

    def __init__(self, reason: Reason, message: str) -> None:
        super().__init__(message)
        self.reason = reason
        self.message = message


def parser(parse: Callable[P, R]) -> Callable[P, R]:
    """Make every exception of a function that reads records of others a `BadRecord`.

    A parser with an unknown fault costs the record that shows it, and does not stop the pipeline.

    >>> parser(lambda value: value["task"])(None)
    Traceback (most recent call last):
    sbic.wire.bad.BadRecord: sbic failed to read it: TypeError
    """

    @wraps(parse)
    def read(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return parse(*args, **kwargs)
        except BadRecord:
            raise
        except Exception as error:
            problem = f"sbic failed to read it: {type(error).__name__}"
            raise BadRecord(Reason.UNREADABLE, problem) from error

    return read


Value = bytes | dict[str, Any] | None
"""The value of a record, or what was parsed of one already."""


def read_object(value: Value, max_bytes: int | None = None) -> dict[str, Any]:
    """Return the JSON object in a record's value; one that was parsed already is returned as it is.

    >>> read_object(b"[1]")
    Traceback (most recent call last):
    sbic.wire.bad.BadRecord: the value must be a JSON object, not a list
    """
    if value is None:
        raise BadRecord(Reason.NULL_VALUE, "the record has no value")
    if type(value) is dict:
        return value
    if max_bytes is not None and len(value) > max_bytes:
        problem = f"the value has {len(value)} bytes, more than {max_bytes}"
        raise BadRecord(Reason.TOO_LARGE, problem)
    try:
        record = loads(value)  # type: ignore[arg-type]  # anything but bytes is not JSON
    except JSONDecodeError as error:
        raise BadRecord(Reason.NOT_JSON, f"the value is not JSON: {error}") from None
    if type(record) is not dict:
        raise BadRecord(Reason.NOT_OBJECT, f"the value must be a JSON object, not {_kind(record)}")
    return record


def read_shallow(value: bytes | None) -> dict[str, Any]:
    """Do the same for records that tools write again: orjson reads deeper ones than it writes.

    >>> read_shallow(b'{"note": %s}' % (b"[" * 300 + b"]" * 300))
    Traceback (most recent call last):
    sbic.wire.bad.BadRecord: its values are nested too deep
    """
    record = read_object(value)
    if (value or b"").count(b"[") + (value or b"").count(b"{") > SURELY_SHALLOW:
        try:
            dumps(record)
        except JSONEncodeError:
            raise BadRecord(Reason.BAD_FIELD, "its values are nested too deep") from None
    return record


def read_field(record: dict[str, Any], name: str) -> Any:
    """Return the value of a required field."""
    try:
        return record[name]
    except KeyError:
        raise BadRecord(Reason.MISSING_FIELD, f"the field '{name}' is missing") from None


def read_id(record: dict[str, Any], name: str) -> str:
    """Return the id in a field: a non-empty string of at most 256 bytes in UTF-8.

    >>> read_id({"task": ""}, "task")
    Traceback (most recent call last):
    sbic.wire.bad.BadRecord: 'task' is empty
    """
    value = read_field(record, name)
    if type(value) is not str:
        raise BadRecord(Reason.BAD_ID, f"'{name}' must be a string, not {_kind(value)}")
    if not value:
        raise BadRecord(Reason.BAD_ID, f"'{name}' is empty")
    if (size := len(value.encode())) > ID_MAX_BYTES:
        raise BadRecord(
            Reason.BAD_ID, f"'{name}' has {size} bytes in UTF-8, more than {ID_MAX_BYTES}"
        )
    return value


def id_of_key(key: bytes | None) -> str:
    """Return the id that a tombstone is about: its key.

    >>> id_of_key(b"t1")
    't1'
    """
    if not key:
        raise BadRecord(Reason.NULL_VALUE, "the record has neither a value nor a key")
    if len(key) > ID_MAX_BYTES:
        raise BadRecord(Reason.BAD_ID, f"the key has {len(key)} bytes, more than {ID_MAX_BYTES}")
    try:
        return key.decode()
    except UnicodeDecodeError:
        raise BadRecord(Reason.BAD_ID, "the key is not text in UTF-8") from None


def read_number(record: dict[str, Any], name: str, kind: type[int] | type[float]) -> Any:
    """Read the number in a field, of the kind (whole or floating) that sbic writes there."""
    value = read_field(record, name)
    if type(value) is not kind:
        raise BadRecord(Reason.BAD_FIELD, f"'{name}' must be {KINDS[kind]}, not {_kind(value)}")
    return value


KINDS: dict[type, str] = {
    type(None): "null",
    bool: "true or false",
    int: "a whole number",
    float: "a number with a fraction or exponent",
    str: "a string",
    list: "a list",
    dict: "an object",
}


def _kind(value: object) -> str:
    return KINDS[type(value)]
