"""Annotations of Label Studio as labels: choices, webhooks, and what the labels topic has."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Literal, NamedTuple

from orjson import JSONDecodeError, dumps, loads

from sbic.classes import Classes
from sbic.foreign import shown
from sbic.wire.bad import BadRecord, read_id

SIGN_OF_CHOICE = {"1": 1, "+1": 1, "-1": -1, "0": 0}


class Problem(ValueError):
    """An annotation that cannot become a label; the message says why, in one line."""


@dataclass(frozen=True)
class Choices:
    """Reads the choice of one control; without a name, of the only one of type `choices`.

    `label_map` has the label that a choice stands for, where it is not the name of a class.

    >>> yes = [{"from_name": "right", "type": "choices", "value": {"choices": ["Yes"]}}]
    >>> Choices(Classes.parse("-1,1"), label_map={"Yes": 1, "No": -1}).label_of(yes)
    1
    >>> Choices(Classes.parse("Yes,No"), control="right").label_of(yes)
    'Yes'
    >>> Choices(Classes.parse("Yes,No"), control="right").label_of([])
    0
    """

    classes: Classes
    control: str | None = None
    label_map: Mapping[str, int | str] = field(default_factory=dict)
    what: str = "choice"  # as the tool calls it

    def label_of(self, result: object) -> int | str:
        """Return the label in the results of an annotation; one without the control is a skip."""
        if not isinstance(result, list):
            raise Problem(f"'result' must be a list, not {shown(result)}")
        found = [
            item
            for item in result
            if isinstance(item, Mapping)
            and item.get("type") == "choices"
            and self.control in (None, item.get("from_name"))
        ]
        names = sorted({shown(item.get("from_name")) for item in found})
        if len(names) > 1:
            raise Problem(f"several controls have choices ({', '.join(names)}): name one of them")
        if not found:
            return 0
        if len(found) > 1:
            raise Problem(f"the control {names[0]} has {len(found)} results, one for each region")
        value = found[0].get("value")
        return self._label(value.get("choices") if isinstance(value, Mapping) else None)

    def label_in_row(self, row: Mapping[str, Any]) -> int | str:
        """Return the label in a row of the JSON_MIN export, which has a field for each control."""
        if self.control is None:
            raise Problem("in a JSON_MIN export the control must be named")
        value = row.get(self.control)
        if value is None:
            return 0
        chosen = value.get("choices") if isinstance(value, Mapping) else [value]
        return self._label(chosen)

    def _label(self, chosen: object) -> int | str:
        if not isinstance(chosen, list) or not all(isinstance(name, str) for name in chosen):
            raise Problem(f"'choices' must be a list of strings, not {shown(chosen)}")
        if not chosen:
            return 0
        if len(chosen) > 1:
            raise Problem(f"{len(chosen)} choices at once: {shown(chosen)}; a label is one class")
        return self.label_named(str(chosen[0]))

    def label_named(self, name: str) -> int | str:
        """Return the label that a choice stands for; raise `Problem`."""
        if name in self.label_map:
            return self.label_map[name]
        if self.classes.is_signs and name in SIGN_OF_CHOICE:
            return SIGN_OF_CHOICE[name]
        if not self.classes.is_signs and name in self.classes.names:
            return name
        listed = self.classes.listed()
        raise Problem(
            f"the {self.what} {shown(name)} is not one of the classes {listed}: map it to one"
        )


def label_map_of(text: str, classes: Classes) -> dict[str, int | str]:
    """Parse the map of choices to labels in the hook's address; raises `Problem`.

    >>> label_map_of("Yes:1,No:-1,Not sure:0", Classes.parse("-1,1"))
    {'Yes': 1, 'No': -1, 'Not sure': 0}
    """
    labels: dict[str, int | str] = {}
    for pair in text.split(","):
        choice, colon, name = (part.strip() for part in pair.rpartition(":"))
        if not colon or not choice:
            raise Problem(f"{shown(pair)} is not CHOICE:LABEL, such as Yes:1")
        label = classes.label_named(name)
        if label is None:
            raise Problem(f"{shown(name)} is not one of {classes.listed()}, or 0 to skip")
        labels[choice] = label
    return labels


# One annotation of Label Studio: its id, the task, the worker and the label.


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
    """Return the id of an annotation; some exports write it as a string.

    >>> annotation_id(17), annotation_id("1001")
    (17, 1001)
    """
    if type(value) is int and value >= 0:
        return value
    if isinstance(value, str) and value.isdecimal() and len(value) < 20:
        return int(value)
    raise Problem(f"an annotation has no id: {shown(value)}")


def text_id(value: object, name: str) -> str:
    """Return the id of a task or of a user, which may be inside an object.

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
    """Return a timestamp in microseconds since 1970; 0 if there is none.

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


# Parses the webhooks of Label Studio: annotations created, updated or deleted.


CREATED = ("ANNOTATION_CREATED", "ANNOTATIONS_CREATED")
UPDATED = ("ANNOTATION_UPDATED",)
DELETED = ("ANNOTATION_DELETED", "ANNOTATIONS_DELETED")


class Unusable(NamedTuple):
    """An annotation whose choices are no label, with these choices and the reason.

    It is sent as a label that no project has, which becomes a dead letter: Label Studio shows
    nobody that a webhook was refused.
    """

    id: int
    slot: Slot
    chosen: str | list[str]
    problem: str

    def encode(self) -> bytes:
        """Return the value of the record; its label is not a class, and a list never is one."""
        (task, worker), source = self.slot, {"unusable": self.id, "problem": self.problem}
        return dumps({"task": task, "worker": worker, "label": self.chosen, FIELD: source})


class Event(NamedTuple):
    """Annotations that were created or updated, and the ids of those that were deleted.

    All are empty for an action that does not concern labels.
    """

    created: tuple[Annotation, ...] = ()
    updated: tuple[Annotation, ...] = ()
    deleted: tuple[int, ...] = ()
    unusable: tuple[Unusable, ...] = ()


def read_event(payload: object, choices: Choices) -> Event:
    """Parse the body of a webhook; raises `Problem`.

    >>> from sbic.classes import Classes
    >>> read_event({"action": "ANNOTATIONS_DELETED", "annotations": [{"id": 17}]},
    ...            Choices(Classes.parse("cat,dog"))).deleted
    (17,)
    """
    if not isinstance(payload, Mapping) or not isinstance(action := payload.get("action"), str):
        raise Problem("the body must be a JSON object with an 'action', as Label Studio sends it")
    if action in DELETED:
        return Event(deleted=tuple(annotation_id(found.get("id")) for found in _found(payload)))
    if action not in CREATED + UPDATED:
        return Event()
    around = payload.get("task")
    task = around if isinstance(around, Mapping) else None  # a list for several annotations
    given: list[Annotation] = []
    unusable: list[Unusable] = []
    for found in _found(payload):
        try:
            given.append(read_annotation(found, choices, task))
        except Problem as problem:
            unusable.append(_unusable(found, task, problem))
    if action in UPDATED:
        return Event(updated=tuple(given), unusable=tuple(unusable))
    return Event(created=tuple(given), unusable=tuple(unusable))


MOST_CHOICES = 10  # of an annotation that cannot be used, in its dead letter
MOST_CHARACTERS = 200  # of each


def _unusable(found: Mapping[str, Any], task: object, problem: Problem) -> Unusable:
    """Return the annotation if only its choices are bad; otherwise raise the problem again."""
    try:
        worker = text_id(found.get("completed_by"), "completed_by")
        slot = Slot(text_id(found.get("task", task), "task"), worker)
        name = annotation_id(found.get("id"))
    except Problem:
        raise problem from None
    chosen = _names_in(found.get("result"))
    names = [each[:MOST_CHARACTERS] for each in chosen[:MOST_CHOICES]]
    is_whole = len(chosen) == 1 and chosen == names and "is not one of" in str(problem)
    return Unusable(name, slot, names[0] if is_whole else names, str(problem))


def _names_in(result: object) -> list[str]:
    """All choices in the results of an annotation."""
    names: list[str] = []
    for item in result if isinstance(result, list) else ():
        value = item.get("value") if isinstance(item, Mapping) else None
        chosen = value.get("choices") if isinstance(value, Mapping) else None
        names += [
            name for name in (chosen if isinstance(chosen, list) else ()) if type(name) is str
        ]
    return names


def _found(payload: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the annotations of a payload, as a list."""
    found = payload.get("annotation", payload.get("annotations"))
    if found is None and "id" in payload:
        found = payload  # the documented form of a single deletion
    listed = found if isinstance(found, list) else [found]
    if not all(isinstance(item, Mapping) for item in listed):
        problem = "has no annotation: switch on 'Send payload' in the webhook"
        raise Problem(f"{payload['action']} {problem}")
    return listed


# A label from Label Studio: an ordinary label that also has the id of its annotation.
#
#     {"task": "5", "worker": "1", "label": "cat",
#      "label_studio": {"annotation": 16, "updated_at": 1629207445805479}}
#
# The pipeline ignores the field. Readers of the labels topic find in it which annotations exist,
# and can take one back when Label Studio reports only its id.


class Tool(NamedTuple):
    """A tool whose annotations are labels: the field that names one, and how ids are given."""

    field: str
    reuses_ids: bool  # after a deletion


LABEL_STUDIO = Tool("label_studio", reuses_ids=False)
FIELD = LABEL_STUDIO.field


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
        """Return the record of an annotation as it is now."""
        return cls(given.slot, given.label, given.id, given.updated_at)


def encode_record(record: Record, tool: Tool = LABEL_STUDIO) -> bytes:
    """Return the value of the record.

    >>> encode_record(Record(Slot("5", "1"), None))
    b'{"task":"5","worker":"1","label":null}'
    """
    (task, worker), label = record.slot, record.label
    value: dict[str, object] = {"task": task, "worker": worker, "label": label}
    if record.annotation is not None:
        value[tool.field] = {"annotation": record.annotation, "updated_at": record.updated_at}
    return dumps(value)


def read_record(value: bytes | None, tool: Tool = LABEL_STUDIO) -> Record | None:
    """Return the record in a value that has an annotation of the tool; None for any other.

    >>> record = Record(Slot("5", "1"), "cat", 16, 1629207445805479)
    >>> read_record(encode_record(record)) == record
    True
    >>> read_record(b'{"task":"5","worker":"1","label":1}')
    """
    if value is None or tool.field.encode() not in value:
        return None
    try:
        found = loads(value)
        source = found[tool.field]
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


# All annotations in the labels topic, and the labels to send when Label Studio changes one.
#
# The answer that stands in the pipeline has to be the one that Label Studio has: of the annotations
# of one worker on one task, with `SBIC_REPEATS=first` the oldest that is not a skip, with `last`
# the one that was created or updated last. All state comes from the labels topic, so several
# gateways and `sbic import` can take turns.


class Annotations:
    """The annotations in the topic: about 500 bytes for each.

    >>> known = Annotations("first")
    >>> cat = Annotation(16, Slot("5", "1"), "cat", updated_at=1)
    >>> known.given(cat)
    [Record(slot=Slot(task='5', worker='1'), label='cat', annotation=16, updated_at=1)]
    >>> for record in known.given(cat):
    ...     known.learn(record)
    >>> known.given(cat)
    []
    >>> known.deleted(16)
    [Record(slot=Slot(task='5', worker='1'), label=None, annotation=16, updated_at=0)]
    """

    def __init__(self, repeats: Literal["first", "last"], tool: Tool = LABEL_STUDIO) -> None:
        self._replaces = repeats == "last"
        self._reuses_ids = tool.reuses_ids
        self._by_id: dict[int, Annotation] = {}
        self._in_slot: dict[Slot, tuple[int, ...]] = {}  # in the order of their last records
        self._deleted: set[int] = set()  # of a tool that never reuses an id
        self._names: dict[str, str] = {}

    def __len__(self) -> int:
        return len(self._by_id)

    def __contains__(self, annotation: int) -> bool:
        return annotation in self._by_id

    def ids(self) -> list[int]:
        """Return the ids of all annotations, in the order of arrival."""
        return list(self._by_id)

    def learn(self, record: Record) -> None:
        """Process a record of the labels topic, each partition's in order."""
        name = record.annotation
        if name is None or name in self._deleted:
            return
        known = self._by_id.get(name)
        if record.label is None:
            if not self._reuses_ids:
                self._deleted.add(name)
                self._remove(known)
            elif known and known.slot == record.slot:
                self._remove(known)
            return
        if known and known.slot != record.slot and known.updated_at > record.updated_at:
            return  # it moved to another worker, whose partition was read first
        self._remove(known)
        task, worker = record.slot
        slot = Slot(self._names.setdefault(task, task), self._names.setdefault(worker, worker))
        self._by_id[name] = Annotation(name, slot, record.label, record.updated_at)
        self._in_slot[slot] = (*self._in_slot.get(slot, ()), name)

    def given(self, new: Annotation) -> list[Record]:
        """Return the records to send for an annotation that was created, updated or exported."""
        known = self._by_id.get(new.id)
        if new.id in self._deleted or (known and known.updated_at > new.updated_at):
            return []  # the topic has a newer one
        before = self._standing(new.slot)
        after = self._winner([*self._others(new.slot, new.id), new])
        if (
            known
            and (known.slot, known.label) == (new.slot, new.label)
            and (known.updated_at == new.updated_at or before == known or after != new)
        ):
            return []  # the topic has it
        moved = self._taken_back(known) if known and known.slot != new.slot else []
        return moved + self._changed(before, Record.of(new), after)

    def deleted(self, annotation: int) -> list[Record] | None:
        """Return the records to send for a deleted annotation; None if the topic never had it."""
        known = self._by_id.get(annotation)
        if known is None:
            return [] if annotation in self._deleted else None
        return [Record(known.slot, None, annotation), *self._instead_of(known)]

    def _changed(
        self, before: Annotation | None, record: Record, after: Annotation | None
    ) -> list[Record]:
        """Get the record, and those that are needed for `after` to stand in place of `before`."""
        stands = before.label if before else None
        if record.label != 0 and (stands is None or self._replaces):
            stands = record.label
        if stands == (after.label if after else None):
            return [record]
        empty = Record(record.slot, None)
        if after and after.id == record.annotation:
            return [empty, record]
        return [record, empty, *([Record.of(after)] if after else [])]

    def _taken_back(self, known: Annotation) -> list[Record]:
        """Take back the label of an annotation that moves to another slot."""
        if self._standing(known.slot) != known:
            return []
        return [Record(known.slot, None), *self._instead_of(known)]

    def _instead_of(self, gone: Annotation) -> list[Record]:
        winner = self._winner(self._others(gone.slot, gone.id))
        return [Record.of(winner)] if winner else []

    def _standing(self, slot: Slot) -> Annotation | None:
        return self._winner([self._by_id[name] for name in self._in_slot.get(slot, ())])

    def _others(self, slot: Slot, but: int) -> list[Annotation]:
        return [self._by_id[name] for name in self._in_slot.get(slot, ()) if name != but]

    def _winner(self, annotations: list[Annotation]) -> Annotation | None:
        """Return the annotation of a slot that has to stand; of equally late ones, the last."""
        answers = [annotation for annotation in annotations if annotation.label != 0]
        if not answers:
            return None
        if self._replaces:
            return max(reversed(answers), key=lambda annotation: annotation.updated_at)
        return min(answers)

    def _remove(self, known: Annotation | None) -> None:
        if known is None:
            return
        del self._by_id[known.id]
        left = tuple(name for name in self._in_slot[known.slot] if name != known.id)
        if left:
            self._in_slot[known.slot] = left
        else:
            del self._in_slot[known.slot]
