"""Reads files of truths: `task`, `truth`."""

import numpy as np

from pipeline.files.columns import Field
from pipeline.files.errors import BadFile, shortened
from pipeline.files.reading import DEFAULT, Reading, as_label
from pipeline.files.source import read_source
from pipeline.files.table import read_table
from pipeline.inference.labels import SIGNS, Ints, Labels


def read_truth(
    path: str, labels_classes: tuple[str, ...], reading: Reading = DEFAULT
) -> dict[str, int]:
    """The truth of each task in a file, encoded as the labels are.

    For labels -1 and 1 it is 1, -1, or 0 if unknown; otherwise the number of the class, or -1 if
    unknown. A truth that no label has gets the number after the last, and so is never right.
    """
    source = read_source(path)
    is_signs = labels_classes == SIGNS
    known = sign_of(reading) if is_signs else number_of(labels_classes, reading)
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
        answer = known.get(as_label(text))
        if answer is None and may_be_other:
            answer = len(labels_classes)
        if answer is None:
            raise BadFile(source.name, not_a_truth(text, labels_classes, reading), line)
        if truth.setdefault(task, answer) != answer:
            problem = f"the task '{shortened(task)}' has another truth on an earlier line"
            raise BadFile(source.name, problem, line)
    return truth


def sign_of(reading: Reading) -> dict[str, int]:
    """The code of each truth, for labels -1 and 1.

    >>> sign_of(Reading(positive="yes", negative="no"))
    {'': 0, '0': 0, '1': 1, '-1': -1, 'no': -1, 'yes': 1}
    """
    signs = {"": 0, "0": 0, "1": 1, "-1": -1} | dict.fromkeys(map(as_label, reading.skip), 0)
    if reading.positive is not None and reading.negative is not None:
        signs |= {as_label(reading.negative): -1, as_label(reading.positive): 1}
    return signs


def number_of(classes: tuple[str, ...], reading: Reading) -> dict[str, int]:
    """The number of each class; -1 for an unknown truth."""
    unknown = dict.fromkeys(("", *map(as_label, reading.skip)), -1)
    return unknown | {name: number for number, name in enumerate(classes)}


def not_a_truth(text: str, classes: tuple[str, ...], reading: Reading) -> str:
    """The error for an invalid truth."""
    if classes == SIGNS and reading.positive is None:
        return f"a truth is 1, -1, or 0 if unknown, not '{shortened(text)}'"
    names = ", ".join(map(shortened, reading.answers or classes))
    return f"a truth is one of {names}, or empty if unknown, not '{shortened(text)}'"


def truth_of(labels: Labels, truth: dict[str, int]) -> Ints:
    """The truth of each task of these labels; unknown is 0 for labels -1 and 1, otherwise -1.

    >>> labels = Labels.of_answers([("t1", "ann", 1), ("t2", "ann", 0)], ("cat", "dog"))
    >>> truth_of(labels, {"t2": 1}).tolist()
    [-1, 1]
    """
    unknown = 0 if labels.are_signs else -1
    return np.array([truth.get(name, unknown) for name in labels.task_names], dtype=np.int64)
