"""Finds the classes of a file, and the class of each label."""

from collections.abc import Mapping
from typing import NamedTuple

from pipeline.files.errors import BadFile, shortened
from pipeline.files.reading import Reading, as_label
from pipeline.inference.labels import SIGNS

MAX_CLASSES = 1000  # detected; more of them suggest the wrong column


class Meaning(NamedTuple):
    """The classes, and the number of the class of each label; None for a skip."""

    classes: tuple[str, ...]
    answers: dict[str, int | None]


def meaning_of(found: Mapping[str, int], reading: Reading, name: str) -> Meaning:
    """The meaning of labels, given with the line on which each was first found.

    >>> from pipeline.files.reading import DEFAULT
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
        classes = SIGNS if set(labels) <= {"0", *SIGNS} else tuple(in_order(labels))
        numbers = numbered(classes)
    return Meaning(classes, {label: numbers.get(label) for label in found})


ZERO_OR_SKIP = (
    "has no labels but 0 and 1: if 0 is an answer, add --classes 0,1 (or --positive 1 --negative 0,"
    " which makes them 1 and -1); if it is a skip, add --skip 0"
)


def named(reading: Reading) -> tuple[tuple[str, ...], dict[str, int]]:
    """The classes given by the user, and the number of each label.

    The order of -1 and 1 is always that of `SIGNS`.

    >>> named(Reading(positive="yes", negative="no"))
    (('-1', '1'), {'no': 0, 'yes': 1})
    """
    labels = tuple(map(as_label, reading.answers or ()))
    if reading.positive is not None:
        return SIGNS, numbered(labels)
    classes = SIGNS if set(labels) == set(SIGNS) else labels
    return classes, numbered(classes)


def numbered(labels: tuple[str, ...]) -> dict[str, int]:
    """Each label with its number."""
    return {label: number for number, label in enumerate(labels)}


def in_order(labels: list[str]) -> list[str]:
    """The labels sorted as numbers if all are, otherwise alphabetically.

    >>> in_order(["10", "9", "-1"]), in_order(["10", "9", "b"])
    (['-1', '9', '10'], ['10', '9', 'b'])
    """
    try:
        return sorted(labels, key=int)
    except ValueError:
        return sorted(labels)


def outside(label: str, reading: Reading) -> str:
    """The error for a label that is not one of those given.

    >>> outside("bird", Reading(classes=("cat", "dog")))
    "the label 'bird' is not one of cat, dog (to treat it as a skip: --skip bird)"
    """
    answers = reading.answers or ()
    names = ", ".join([*map(shortened, answers[:10]), *(["..."] if answers[10:] else [])])
    short = shortened(label)
    way_out = f"to treat it as a skip: --skip {short}"
    if reading.classes_from:
        names = f"{reading.classes_from}: {names}"
        way_out += "; to add it to the classes: sbic project set"
    return f"the label '{short}' is not one of {names} ({way_out})"
