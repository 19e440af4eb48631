"""One annotation of Label Studio: its id, the task, the worker and the label."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, NamedTuple

from pipeline.foreign import shown
from pipeline.label_studio.choices import Choices, Problem
from pipeline.records.bad import BadRecord, read_id


class Slot(NamedTuple):
    """A task and a worker: of the answers with the same slot, one stands."""

    task: str
    worker: str


class Annotation(NamedTuple):
    """An answer given in Label Studio; `label` is 0 for a skip.

    `updated_at` is in microseconds since 1970, 0 where Label Studio does not give it.
    """

    id: int
    slot: Slot
    label: int | str
    updated_at: int


def read_annotation(found: Mapping[str, Any], choices: Choices, task: object = None) -> Annotation:
    """Parse an annotation of a webhook or a JSON export; raises `Problem`.

    `task` is the id of the task around it, for an annotation that does not name its own.
    """
    name = annotation_id(found.get("id"))
    try:
        worker = text_id(found.get("completed_by"), "completed_by")
        slot = Slot(text_id(found.get("task", task), "task"), worker)
        label = 0 if found.get("was_cancelled") else choices.label_of(found.get("result"))
    except Problem as problem:
        raise Problem(f"annotation {name}: {problem}") from None
    return Annotation(name, slot, label, microseconds(found.get("updated_at")))


def read_row(row: Mapping[str, Any], choices: Choices) -> Annotation:
    """Parse a row of a JSON_MIN export; raises `Problem`."""
    name = annotation_id(row.get("annotation_id"))
    try:
        slot = Slot(text_id(row.get("id"), "id"), text_id(row.get("annotator"), "annotator"))
        label = choices.label_in_row(row)
    except Problem as problem:
        raise Problem(f"annotation {name}: {problem}") from None
    return Annotation(name, slot, label, microseconds(row.get("updated_at")))


def annotation_id(value: object) -> int:
    """The id of an annotation; some exports write it as a string.

    >>> annotation_id(17), annotation_id("1001")
    (17, 1001)
    """
    if type(value) is int and value >= 0:
        return value
    if isinstance(value, str) and value.isdecimal() and len(value) < 20:
        return int(value)
    raise Problem(f"an annotation has no id: {shown(value)}")


def text_id(value: object, name: str) -> str:
    """The id of a task or of a user, which may be inside an object.

    >>> text_id(3, "task"), text_id({"id": 5, "email": "ann@example.org"}, "completed_by")
    ('3', '5')
    """
    if isinstance(value, Mapping):
        value = value.get("id")
    if type(value) not in (int, str):
        raise Problem(f"'{name}' must be an id, not {shown(value)}")
    try:
        return read_id({name: str(value)}, name)
    except (BadRecord, UnicodeEncodeError) as error:
        raise Problem(str(error)) from None


def microseconds(text: object) -> int:
    """A timestamp in microseconds since 1970; 0 if there is none.

    >>> microseconds("2021-08-17T13:52:48.536370Z") - microseconds("2021-08-17T13:52:48Z")
    536370
    >>> microseconds(None)
    0
    """
    if not isinstance(text, str):
        return 0
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        return 0
    since = (time if time.tzinfo else time.replace(tzinfo=UTC)) - datetime(1970, 1, 1, tzinfo=UTC)
    return (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds
