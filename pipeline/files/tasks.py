"""Files of tasks: `task`, and if wanted `prior` and `gold`."""

from collections.abc import Iterator
from typing import NamedTuple

from pipeline.files.columns import Field, NumberedFields
from pipeline.files.errors import BadFile, shortened
from pipeline.files.reading import DEFAULT, Reading, as_label
from pipeline.files.source import Source
from pipeline.files.table import read_table

FIELDS = ("task", "prior", "gold")

TaskRow = tuple[str, float | None, int | None]
"""Task, prior and gold; None where the file says nothing."""


class TaskTable(NamedTuple):
    """The line and the row of every task; `unread`, complete after the last, has other columns."""

    rows: Iterator[tuple[int, TaskRow]]
    unread: dict[str, None]


def task_table(source: Source, reading: Reading = DEFAULT) -> TaskTable:
    """The tasks of a file, none of which may come twice.

    >>> table = task_table(Source("tasks.csv", "task,gold,note\\nt1,,\\nt2,-1,x\\n"))
    >>> list(table.rows), list(table.unread)
    ([(2, ('t1', None, None)), (3, ('t2', None, -1))], ['note'])
    """
    fields = [Field(name, reading.columns.get(name), name == "task") for name in FIELDS]
    table = read_table(source, fields)
    return TaskTable(_task_rows(source.name, table.rows, _signs(reading)), table.unread)


def _task_rows(
    name: str, rows: Iterator[NumberedFields], signs: dict[str, int]
) -> Iterator[tuple[int, TaskRow]]:
    lines: dict[str, int] = {}
    for line, (task, prior, gold) in rows:
        if not (task + prior + gold).strip():
            continue  # a blank line of a spreadsheet has its delimiters
        try:
            row = _task(task.strip(), lines), _prior(prior), _gold(gold, signs)
        except ValueError as error:
            raise BadFile(name, str(error), line) from None
        lines[row[0]] = line
        yield line, row


def _signs(reading: Reading) -> dict[str, int]:
    """What each gold is."""
    if reading.positive is None or reading.negative is None:
        return {"1": 1, "-1": -1}
    return {as_label(reading.positive): 1, as_label(reading.negative): -1}


def _task(task: str, lines: dict[str, int]) -> str:
    if not task:
        raise ValueError("the task is empty")
    if task in lines:
        raise ValueError(f"the task '{shortened(task)}' is on line {lines[task]} already")
    return task


def _prior(text: str) -> float | None:
    if not text.strip():
        return None
    try:
        prior = float(text)
    except ValueError:
        prior = 0.0
    if not 0 < prior < 1:
        raise ValueError(f"a prior is between 0 and 1, not '{shortened(text)}'")
    return prior


def _gold(text: str, signs: dict[str, int]) -> int | None:
    if not text.strip():
        return None
    gold = signs.get(as_label(text))
    if gold is None:
        known = ", ".join(map(shortened, signs))
        way_out = "" if "1" not in signs else " (to map others: --positive and --negative)"
        raise ValueError(
            f"gold is {known}, or nothing if it is not known, not '{shortened(text)}'{way_out}"
        )
    return gold
