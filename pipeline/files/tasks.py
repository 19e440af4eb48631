"""Files of tasks: `task`, and if wanted `prior` and `gold`."""

from collections.abc import Iterator

from pipeline.files.errors import BadFile
from pipeline.files.labels import shortened
from pipeline.files.source import Source
from pipeline.files.table import counted, numbered_rows, positions

COLUMNS = ("task", "prior", "gold")
GOLD = {"1": 1, "-1": -1}

TaskRow = tuple[str, float | None, int | None]
"""Task, prior and gold; None where the file says nothing."""


def task_rows(source: Source) -> Iterator[tuple[int, TaskRow]]:
    """The line and the task, prior and gold of every row; no task may come twice.

    >>> list(task_rows(Source("tasks.csv", "task,gold\\nt1,\\nt2,-1\\n")))
    [(2, ('t1', None, None)), (3, ('t2', None, -1))]
    """
    rows = numbered_rows(source)
    header_line, header = next(rows, (1, None))
    if header is None:
        raise BadFile(source.name, "is empty; it needs a header with task, prior, gold")
    names = [field.strip() for field in header]
    columns = tuple(name for name in COLUMNS if name == "task" or name in names)
    try:
        places = dict(zip(columns, positions(header, columns), strict=True))
    except ValueError as error:
        raise BadFile(source.name, str(error), header_line) from error
    lines: dict[str, int] = {}
    for line, row in rows:
        if len(row) != len(header):
            problem = f"has {counted(len(row))}, but the header has {len(header)}"
            raise BadFile(source.name, problem, line)
        fields = {name: row[place] for name, place in places.items()}
        try:
            task = _task(fields["task"], lines)
            lines[task] = line
            yield line, (task, _prior(fields.get("prior", "")), _gold(fields.get("gold", "")))
        except ValueError as error:
            raise BadFile(source.name, str(error), line) from None


def _task(text: str, lines: dict[str, int]) -> str:
    if not text or text.isspace():
        raise ValueError("the task is empty")
    if text in lines:
        raise ValueError(f"the task '{shortened(text)}' is on line {lines[text]} already")
    return text


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


def _gold(text: str) -> int | None:
    if not text.strip():
        return None
    if text.strip() not in GOLD:
        raise ValueError(f"gold is 1, -1, or nothing if it is not known, not '{shortened(text)}'")
    return GOLD[text.strip()]
