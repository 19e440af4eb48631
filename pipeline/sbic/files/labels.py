"""Reads files of labels (`task`, `worker`, `label`) and of truths (`task`, `truth`)."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from sbic.engine import SIGN_NAMES
from sbic.engine.labels import Ints, Labels
from sbic.files.tables import (
    MAX_SIZE,
    BadFile,
    Field,
    TextFile,
    listed,
    read_source,
    read_table,
    shortened,
)

WHOLE_NUMBER = re.compile(r"\+?(-?(?:0|[1-9][0-9]{0,17}))(?:\.0*)?")


@dataclass(frozen=True)
class Reading:
    """The user's options for reading a file.

    `columns` has the columns of fields with other names (`{"task": "HITId"}`), `classes` the
    allowed labels, in order, `skip` the labels that are skips, `positive` and `negative` the labels
    that stand for 1 and -1, `label_map` those that stand for others. With `ignore_case`, labels
    that differ only in case are one. `encoding` is that of the file, if it is neither UTF-8 nor has
    a byte order mark; `max_size` is in bytes, unpacked. `classes_from` describes where the classes
    come from if the user did not give them.

    >>> Reading(classes=("cat", "dog"), skip=("cat",))
    Traceback (most recent call last):
    ValueError: 'cat' is a class and a skip
    """

    columns: Mapping[str, str] = field(default_factory=dict)
    classes: tuple[str, ...] | None = None
    positive: str | None = None
    negative: str | None = None
    skip: tuple[str, ...] = ()
    label_map: Mapping[str, str] = field(default_factory=dict)
    ignore_case: bool = False
    encoding: str | None = None
    max_size: int = MAX_SIZE
    classes_from: str = ""

    def __post_init__(self) -> None:
        if (self.positive is None) != (self.negative is None):
            raise ValueError("--positive and --negative need each other")
        if self.classes is not None and self.positive is not None:
            raise ValueError("--classes does not go with --positive and --negative")
        answers = self.answers or ()
        if "" in map(str.strip, answers):
            raise ValueError("a class without a name: an empty label is a skip")
        spelled = [as_label(answer) for answer in answers]
        for answer in spelled:
            if spelled.count(answer) > 1:
                raise ValueError(f"'{answer}' is given twice, but classes must differ")
            if answer in map(as_label, self.skip):
                raise ValueError(f"'{answer}' is a class and a skip")
        if self.classes is not None and len(self.classes) < 2:
            raise ValueError("there must be two classes or more")
        if self.ignore_case:
            for first, second in same_but_for_case((*spelled, *map(as_label, self.skip))):
                raise ValueError(f"'{first}' and '{second}' are the same with --ignore-case")

    @property
    def answers(self) -> tuple[str, ...] | None:
        """The labels that are answers; None to detect them from the file."""
        if self.positive is not None and self.negative is not None:
            return (self.negative, self.positive)
        return self.classes

    def source(self, path: str) -> TextFile:
        """Return the text of a file; `-` is standard input."""
        return read_source(path, self.max_size, self.encoding)

    def spelling(self, known: Iterable[str] = ()) -> Callable[[str], str]:
        """Return a function that gives a label its normal form.

        With `ignore_case` the spelling that is given, `known` or found first is that of all.

        >>> Reading(label_map={"Katze": "cat"}).spelling()(" Katze ")
        'cat'
        >>> spelled = Reading(classes=("Ja", "Nein"), ignore_case=True).spelling()
        >>> [spelled(text) for text in ("JA", " nein", "Weiß nicht", "WEISS NICHT")]
        ['Ja', 'Nein', 'Weiß nicht', 'Weiß nicht']
        """
        mapped = {as_label(label): stands_for for label, stands_for in self.label_map.items()}
        if not self.ignore_case:
            return lambda text: mapped.get(label := as_label(text), label)
        spellings: dict[str, str] = {}
        mapped = {label.casefold(): stands_for for label, stands_for in mapped.items()}

        def spelled(text: str) -> str:
            label = as_label(text)
            label = mapped.get(label.casefold(), label)
            return spellings.setdefault(label.casefold(), label)

        for name in (*(self.answers or ()), *self.skip, *known):
            spellings.setdefault(as_label(name).casefold(), as_label(name))
        return spelled


DEFAULT = Reading()


def as_label(text: str) -> str:
    """Return the normal form of a label: stripped, with whole numbers in one spelling.

    >>> [as_label(text) for text in (" cat", "+1", "1.0", "-1.", "-0", "01", "1.5")]
    ['cat', '1', '1', '-1', '0', '01', '1.5']
    """
    text = text.strip()
    match = WHOLE_NUMBER.fullmatch(text)
    if not match:
        return text
    return "0" if match[1] == "-0" else match[1]


def same_but_for_case(names: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Yield each name that differs from an earlier one only in case, after that one.

    >>> list(same_but_for_case(["Ja", "Nein", "ja", "JA"]))
    [('Ja', 'ja'), ('Ja', 'JA')]
    """
    first: dict[str, str] = {}
    for name in names:
        if (known := first.setdefault(name.casefold(), name)) != name:
            yield known, name


# Finds the classes of a file, and the class of each label.


MAX_CLASSES = 1000  # detected; more of them suggest the wrong column


class Meaning(NamedTuple):
    """The classes, and the number of the class of each label; None for a skip."""

    classes: tuple[str, ...]
    answers: dict[str, int | None]


def meaning_of(found: Mapping[str, int], reading: Reading, name: str) -> Meaning:
    """Return the meaning of labels, given with the line on which each was first found.

    >>> from sbic.files.labels import DEFAULT
    >>> meaning_of({"1": 2, "0": 3, "-1": 4}, DEFAULT, "labels.csv")
    Meaning(classes=('-1', '1'), answers={'1': 1, '0': None, '-1': 0})
    >>> meaning_of({"2": 2, "10": 3, "0": 4, "": 5}, DEFAULT, "labels.csv")
    Meaning(classes=('0', '2', '10'), answers={'2': 1, '10': 2, '0': 0, '': None})
    """
    skips = {"", *map(as_label, reading.skip)}
    labels = [label for label in found if label not in skips]
    if reading.answers is not None:
        classes, numbers = named(reading)
        for label in labels:
            if label not in numbers:
                raise BadFile(name, outside(label, reading), found[label])
    elif "0" in labels and set(labels) <= {"0", "1"}:
        raise BadFile(name, ZERO_OR_SKIP)
    else:
        classes = SIGN_NAMES if set(labels) <= {"0", *SIGN_NAMES} else tuple(in_order(labels))
        numbers = numbered(classes)
    return Meaning(classes, {label: numbers.get(label) for label in found})


ZERO_OR_SKIP = (
    "has no labels but 0 and 1: if 0 is an answer, add --classes 0,1 (or --positive 1 --negative 0,"
    " which makes them 1 and -1); if it is a skip, add --skip 0"
)


def named(reading: Reading) -> tuple[tuple[str, ...], dict[str, int]]:
    """Return the classes given by the user, and the number of each label.

    The order of -1 and 1 is always that of `SIGN_NAMES`.

    >>> named(Reading(positive="yes", negative="no"))
    (('-1', '1'), {'no': 0, 'yes': 1})
    """
    labels = tuple(map(as_label, reading.answers or ()))
    if reading.positive is not None:
        return SIGN_NAMES, numbered(labels)
    classes = SIGN_NAMES if set(labels) == set(SIGN_NAMES) else labels
    return classes, numbered(classes)


def numbered(labels: tuple[str, ...]) -> dict[str, int]:
    """Each label with its number."""
    return {label: number for number, label in enumerate(labels)}


def in_order(labels: list[str]) -> list[str]:
    """Return the labels sorted as numbers if all are, otherwise alphabetically.

    >>> in_order(["10", "9", "-1"]), in_order(["10", "9", "b"])
    (['-1', '9', '10'], ['10', '9', 'b'])
    """
    try:
        return sorted(labels, key=int)
    except ValueError:
        return sorted(labels)


def outside(label: str, reading: Reading) -> str:
    """Return the error for a label that is not one of those given.

    >>> outside("bird", Reading(classes=("cat", "dog")))
    "the label 'bird' is not one of cat, dog (to treat it as a skip: --skip bird)"
    >>> outside("Cat", Reading(classes=("cat", "dog")))
    "the label 'Cat' is not one of cat, dog (to treat them alike: --ignore-case)"
    """
    answers = reading.answers or ()
    names = listed(answers)
    short = shortened(label)
    if label.casefold() in map(str.casefold, answers):
        way_out = "to treat them alike: --ignore-case"
    else:
        way_out = f"to treat it as a skip: --skip {short}"
    if reading.classes_from:
        names = f"{reading.classes_from}: {names}"
        way_out += "; to add it to the classes: sbic project set"
    return f"the label '{short}' is not one of {names} ({way_out})"


# Reads files of labels: `task`, `worker`, `label`.


FIELDS = ("task", "worker", "label")


class LabelRows(NamedTuple):
    """Every row of a file in order: task, worker, and the number of the class (None: a skip)."""

    tasks: list[str]
    workers: list[str]
    answers: list[int | None]
    classes: tuple[str, ...]


def read_labels(path: str, reading: Reading = DEFAULT) -> Labels:
    """Return the labels of a file; `-` is standard input."""
    rows = label_rows(reading.source(path), reading)
    return Labels.of_answers(zip(rows.tasks, rows.workers, rows.answers, strict=True), rows.classes)


def label_rows(source: TextFile, reading: Reading = DEFAULT) -> LabelRows:
    """All rows, and the classes of their labels, known once all rows are read.

    >>> label_rows(TextFile("x.csv", "task,worker,label\\nt1,ann,dog\\nt1,bob,cat\\n"))
    LabelRows(tasks=['t1', 't1'], workers=['ann', 'bob'], answers=[1, 0], classes=('cat', 'dog'))
    """
    fields = [Field(name, reading.columns.get(name)) for name in FIELDS]
    names: dict[str, str] = {}  # each name as in the file, to one stripped copy
    spellings: dict[str, str] = {}  # each label as in the file, to its normal form
    lines: dict[str, int] = {}  # the first line of each label
    spelled = reading.spelling()
    tasks, workers, labels = [], [], []
    for line, (task_text, worker_text, label_text) in read_table(source, fields).rows:
        task, worker = names.get(task_text), names.get(worker_text)
        label = spellings.get(label_text)
        if task is None or worker is None:
            task, worker = task_text.strip(), worker_text.strip()
            if not (task and worker):
                if not (task or worker or label_text.strip()):
                    continue  # a blank line of a spreadsheet still has delimiters
                problem = f"the {'worker' if task else 'task'} is empty"
                raise BadFile(source.name, problem, line)
            task = names[task_text] = names.setdefault(task, task)
            worker = names[worker_text] = names.setdefault(worker, worker)
        if label is None:
            label = spellings[label_text] = spelled(label_text)
            lines.setdefault(label, line)
            if len(lines) > MAX_CLASSES and reading.answers is None:
                raise BadFile(source.name, too_many(label), line)
        tasks.append(task)
        workers.append(worker)
        labels.append(label)
    if not labels:
        raise BadFile(source.name, "has no labels: nothing follows the header")
    classes, answers = meaning_of(lines, reading, source.name)
    return LabelRows(tasks, workers, list(map(answers.__getitem__, labels)), classes)


def too_many(label: str) -> str:
    """Return the error for too many classes."""
    return (
        f"has more than {MAX_CLASSES:,} different labels, as '{shortened(label)}': is it another"
        " column? (--columns label=NAME)"
    )


# Reads files of truths: `task`, `truth`.


def read_truth(
    path: str, labels_classes: tuple[str, ...], reading: Reading = DEFAULT
) -> dict[str, int]:
    """Return the number of each task's true class, or -1 if it is unknown.

    A truth that no label has gets the number after the last, and so is never right.
    """
    source = reading.source(path)
    is_signs = labels_classes == SIGN_NAMES
    known = numbers_of(labels_classes, reading)
    spelled = reading.spelling(labels_classes)
    may_be_other = not is_signs and reading.classes is None
    fields = [
        Field("task", reading.columns.get("task"), or_own_name=True),
        Field("truth", reading.columns.get("truth")),
    ]
    truth: dict[str, int] = {}
    for line, (task_text, text) in read_table(source, fields).rows:
        task = task_text.strip()
        if not task:
            if not text.strip():
                continue  # a blank line of a spreadsheet still has delimiters
            raise BadFile(source.name, "the task is empty", line)
        answer = known.get(spelled(text))
        if answer is None and may_be_other:
            answer = len(labels_classes)
        if answer is None:
            raise BadFile(source.name, not_a_truth(text, labels_classes, reading), line)
        if truth.setdefault(task, answer) != answer:
            problem = f"the task '{shortened(task)}' has another truth on an earlier line"
            raise BadFile(source.name, problem, line)
    return truth


def numbers_of(classes: tuple[str, ...], reading: Reading) -> dict[str, int]:
    """Return the number of the class that each text stands for; -1 for an unknown truth.

    >>> numbers_of(SIGN_NAMES, Reading(positive="yes", negative="no"))
    {'': -1, '0': -1, '-1': 0, '1': 1, 'no': 0, 'yes': 1}
    """
    unknown = ["", *(["0"] if classes == SIGN_NAMES else []), *map(as_label, reading.skip)]
    numbers = dict.fromkeys(unknown, -1) | {name: number for number, name in enumerate(classes)}
    if classes == SIGN_NAMES and reading.positive is not None and reading.negative is not None:
        numbers |= {as_label(reading.negative): 0, as_label(reading.positive): 1}
    return numbers


def not_a_truth(text: str, classes: tuple[str, ...], reading: Reading) -> str:
    """Return the error for an invalid truth."""
    if classes == SIGN_NAMES and reading.positive is None:
        return f"a truth is 1, -1, or 0 if unknown, not '{shortened(text)}'"
    names = listed(reading.answers or classes)
    return f"a truth is one of {names}, or empty if unknown, not '{shortened(text)}'"


def truth_of(labels: Labels, truth: dict[str, int]) -> Ints:
    """Return the number of the true class of each task of these labels; -1 if it is unknown.

    >>> labels = Labels.of_answers([("t1", "ann", 1), ("t2", "ann", 0)], ("cat", "dog"))
    >>> truth_of(labels, {"t2": 1}).tolist()
    [-1, 1]
    """
    return np.array([truth.get(name, -1) for name in labels.task_names], dtype=np.int64)
