"""Reads files of tasks: `task`, and optionally `prior` and `gold`."""

import json
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from sbic.engine import SIGN_NAMES
from sbic.files.labels import DEFAULT, Reading, as_label
from sbic.files.tables import (
    BadFile,
    Field,
    NumberedFields,
    TextFile,
    listed,
    read_table,
    shortened,
)

FIELDS = ("task", "prior", "gold")

NamedPrior = dict[str, float]


class TaskRow(NamedTuple):
    """The description of a task as it is on the wire; None for empty fields."""

    task: str
    prior: float | NamedPrior | None = None
    gold: int | str | None = None


class TaskTable(NamedTuple):
    """The line and row of every task; `unread`, the other columns, fills as rows are read."""

    rows: Iterator[tuple[int, TaskRow]]
    unread: dict[str, None]


def task_table(
    source: TextFile, reading: Reading = DEFAULT, classes: tuple[str, ...] = SIGN_NAMES
) -> TaskTable:
    """Return the tasks of a file; no task may appear twice.

    >>> table = task_table(TextFile("tasks.csv", "task,gold,note\\nt1,,\\nt2,-1,x\\n"))
    >>> [row for _, row in table.rows], list(table.unread)
    ([TaskRow(task='t1', prior=None, gold=None), TaskRow(task='t2', prior=None, gold=-1)], ['note'])

    If classes have names, the prior of each has a column; in JSON Lines it may be an object.

    >>> source = TextFile("tasks.csv", "task,gold,p:cat,p:dog\\nt1,dog,0.2,0.8\\n")
    >>> [row for _, row in task_table(source, classes=("cat", "dog")).rows]
    [TaskRow(task='t1', prior={'cat': 0.2, 'dog': 0.8}, gold='dog')]
    >>> source = TextFile("-", '{"task": "t1", "prior": {"cat": 0.2, "dog": 0.8}}')
    >>> [row for _, row in task_table(source, classes=("cat", "dog")).rows]
    [TaskRow(task='t1', prior={'cat': 0.2, 'dog': 0.8}, gold=None)]
    """
    fields = [
        Field(
            name,
            reading.columns.get(name),
            is_required=name == "task",
            may_be_object=name == "prior" and classes != SIGN_NAMES,
        )
        for name in FIELDS
    ]
    if classes != SIGN_NAMES:
        fields += [Field(f"p:{name}", is_required=False) for name in classes]
    table = read_table(source, fields)
    golds = Golds(_golds(reading, classes), reading.spelling(classes))
    return TaskTable(_task_rows(source.name, table.rows, golds, classes), table.unread)


class Golds(NamedTuple):
    """The gold labels as they are on the wire, by their normal form, and what gives that."""

    known: dict[str, int | str]
    spelled: Callable[[str], str]


def _task_rows(
    name: str, rows: Iterator[NumberedFields], golds: Golds, classes: tuple[str, ...]
) -> Iterator[tuple[int, TaskRow]]:
    lines: dict[str, int] = {}
    for line, fields in rows:
        if not "".join(fields).strip():
            continue  # a blank line of a spreadsheet still has delimiters
        task, prior, gold, *priors = fields
        try:
            row = TaskRow(
                _task(task.strip(), lines),
                _prior(prior) if classes == SIGN_NAMES else _named_prior(prior, priors, classes),
                _gold(gold, golds, classes),
            )
        except ValueError as error:
            raise BadFile(name, str(error), line) from None
        lines[row.task] = line
        yield line, row


def _golds(reading: Reading, classes: tuple[str, ...]) -> dict[str, int | str]:
    """Return the gold labels as they are on the wire."""
    if classes != SIGN_NAMES:
        return {as_label(name): name for name in classes}
    if reading.positive is None or reading.negative is None:
        return {"1": 1, "-1": -1}
    return {as_label(reading.positive): 1, as_label(reading.negative): -1}


def _task(task: str, lines: dict[str, int]) -> str:
    if not task:
        raise ValueError("the task is empty")
    if task in lines:
        raise ValueError(f"the task '{shortened(task)}' is already on line {lines[task]}")
    return task


def _prior(text: str) -> float | None:
    if not text.strip():
        return None
    return _probability(text)


def _named_prior(
    text: str, of_classes: Sequence[str], classes: tuple[str, ...]
) -> NamedPrior | None:
    """Return the prior by name, from an object or from the columns of the classes."""
    given = {name: prior for name, prior in zip(classes, of_classes, strict=True) if prior.strip()}
    if text.strip():
        if given:
            raise ValueError("has a prior and columns p:<class>; give only one of them")
        given = _object(text, classes)
    return {name: _probability(prior) for name, prior in given.items()} or None


def _object(text: str, classes: tuple[str, ...]) -> dict[str, str]:
    try:
        found = json.loads(text, parse_int=str, parse_float=str)
    except (json.JSONDecodeError, RecursionError):
        found = None
    if not isinstance(found, dict) or not all(isinstance(each, str) for each in found.values()):
        raise ValueError(
            "a prior is an object with the probability of each class, or has columns"
            f" {', '.join(f'p:{shortened(name)}' for name in classes[:3])}"
            f"{', ...' if classes[3:] else ''}; not '{shortened(text)}'"
        )
    return found


def _probability(text: str) -> float:
    try:
        prior = float(text)
    except ValueError:
        prior = 0.0
    if not 0 < prior < 1:
        raise ValueError(f"a prior is between 0 and 1, not '{shortened(text)}'")
    return prior


def _gold(text: str, golds: Golds, classes: tuple[str, ...]) -> int | str | None:
    if not text.strip():
        return None
    gold = golds.known.get(golds.spelled(text))
    if gold is None:
        known = listed([*golds.known])
        way_out = ""
        if classes == SIGN_NAMES and "1" in golds.known:
            way_out = (
                " (to map others: --positive and --negative; for names: sbic project set classes)"
            )
        raise ValueError(
            f"gold is {known}, or empty if it is not known, not '{shortened(text)}'{way_out}"
        )
    return gold
