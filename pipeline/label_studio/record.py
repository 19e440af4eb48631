"""A label from Label Studio: an ordinary label that also has the id of its annotation.

    {"task": "5", "worker": "1", "label": "cat",
     "label_studio": {"annotation": 16, "updated_at": 1629207445805479}}

The pipeline ignores the field. Readers of the labels topic find in it which annotations exist, and
can take one back when Label Studio reports only its id.
"""

from typing import NamedTuple

from orjson import JSONDecodeError, dumps, loads

from pipeline.label_studio.annotation import Annotation, Slot

FIELD = "label_studio"
MARK = b'"label_studio"'


class Record(NamedTuple):
    """A label to send; None takes back the label that stands.

    With an `annotation`, None means that the annotation was deleted.
    """

    slot: Slot
    label: int | str | None
    annotation: int | None = None
    updated_at: int = 0

    @classmethod
    def of(cls, given: Annotation) -> "Record":
        """The record of an annotation as it is now."""
        return cls(given.slot, given.label, given.id, given.updated_at)


def encode_record(record: Record) -> bytes:
    """The value of the record.

    >>> encode_record(Record(Slot("5", "1"), None))
    b'{"task":"5","worker":"1","label":null}'
    """
    (task, worker), label = record.slot, record.label
    value: dict[str, object] = {"task": task, "worker": worker, "label": label}
    if record.annotation is not None:
        value[FIELD] = {"annotation": record.annotation, "updated_at": record.updated_at}
    return dumps(value)


def read_record(value: bytes | None) -> Record | None:
    """The record in a value that has an annotation; None for any other.

    >>> record = Record(Slot("5", "1"), "cat", 16, 1629207445805479)
    >>> read_record(encode_record(record)) == record
    True
    >>> read_record(b'{"task":"5","worker":"1","label":1}')
    """
    if value is None or MARK not in value:
        return None
    try:
        found = loads(value)
        source = found[FIELD]
        annotation, updated_at = source["annotation"], source.get("updated_at", 0)
        task, worker, label = found["task"], found["worker"], found["label"]
    except (JSONDecodeError, TypeError, KeyError, AttributeError):
        return None
    if (
        (type(task), type(worker), type(annotation), type(updated_at)) != (str, str, int, int)
        or type(label) not in (int, str, type(None))
    ):  # fmt: skip
        return None
    return Record(Slot(task, worker), label, annotation, updated_at)
