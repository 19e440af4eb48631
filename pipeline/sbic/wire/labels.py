"""Labels, the input: `{"task": "t1", "worker": "w1", "label": 1}`, checked in the hot path.

A label is one of the project's classes (1 and -1, or a string where classes have names), 0 for a
skip or `null` to take an answer back. Unknown fields are ignored. The key is not checked here: a
label whose key is not its worker is forwarded, and counts.
"""

from collections.abc import Callable
from typing import Any

from orjson import dumps, loads

from sbic.classes import Classes, LabelForm
from sbic.foreign import shown
from sbic.wire.bad import (
    ID_SURELY_SHORT,
    BadRecord,
    Reason,
    Value,
    parser,
    read_field,
    read_id,
    read_object,
)
from sbic.wire.rendering import rendering_of

MAX_BYTES = 1 << 20  # of a value: the default limit of Kafka clients

LABEL_TYPES = frozenset((int, str, type(None)))  # 1.0 and true are not 1

CodedLabel = tuple[str, str, int]
"""Task, worker, and the number of the class, `SKIP` or `RETRACT`; a plain tuple, because creating
anything else costs as much as parsing."""


def label_parser(classes: Classes) -> Callable[[Value], CodedLabel]:
    """Return a parser for the labels of a project with these classes.

    >>> parse = label_parser(Classes.parse("cat,dog,bird"))
    >>> parse(b'{"task": "t1", "worker": "w1", "label": "bird"}')
    ('t1', 'w1', 2)
    >>> from sbic.classes import SKIP
    >>> parse(b'{"task": "t1", "worker": "w1", "label": 0}')[2] == SKIP
    True
    >>> parse(b'{"task": "t1", "worker": "w1", "label": "fish"}')
    Traceback (most recent call last):
    sbic.wire.bad.BadRecord: 'label' must be one of 'cat', 'dog', 'bird', 0 or null, \
not 'fish'
    """
    codes = classes.numbers

    def parse(value: Value) -> CodedLabel:
        try:
            # None is not JSON either
            record = value if type(value) is dict else loads(value)  # type: ignore[arg-type]
            task = record["task"]
            worker = record["worker"]
            label = record["label"]
            if (
                type(task) is str
                and type(worker) is str
                and 0 < len(task) <= ID_SURELY_SHORT
                and 0 < len(worker) <= ID_SURELY_SHORT
                and type(label) in LABEL_TYPES
                and len(value) <= MAX_BYTES  # type: ignore[arg-type]
            ):
                return task, worker, codes[label]
        except Exception:
            pass
        return parse_carefully(value)

    @parser
    def parse_carefully(value: Value) -> CodedLabel:
        """Parse what the fast path did not accept, or raise `BadRecord` with the problem."""
        task, worker, label = _read_fields(value)
        if type(label) in LABEL_TYPES and label in codes:
            return task, worker, codes[label]
        needs = rendering_of(classes).needs_label
        raise BadRecord(Reason.BAD_LABEL, f"'label' must be {needs}, not {shown(label)}")

    return parse


def _read_fields(value: Value) -> tuple[str, str, Any]:
    record = read_object(value, MAX_BYTES)
    return read_id(record, "task"), read_id(record, "worker"), read_field(record, "label")


def encode_label(task: str, worker: str, label: LabelForm) -> bytes:
    """Return the value of a label's record; `label` is in its wire form.

    >>> encode_label("t1", "w1", 1), encode_label("t1", "w1", "cat")
    (b'{"task":"t1","worker":"w1","label":1}', b'{"task":"t1","worker":"w1","label":"cat"}')
    """
    return dumps({"task": task, "worker": worker, "label": label})
