"""The outcome of an experiment: numbers for a CSV, a plot, and a text."""

import io
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from sbic.files.writing import csv_bytes, write_atomically
from sbic.infer.intervals import agresti_coull

if TYPE_CHECKING:
    from matplotlib.figure import Figure


EXTRA = "pip install 'sbic[research]'"


class MissingResearchExtra(Exception):
    """A library of the `research` extra is not installed."""


@dataclass(frozen=True)
class Finding:
    """The files `name.csv` and `name.png`, and the table with its notes in plain text."""

    name: str
    columns: tuple[str, ...]
    rows: Sequence[Sequence[object]]
    text: str
    draw: Callable[["Figure"], None]


def save_csv(outcome: Finding, out: Path) -> Path:
    """Write the numbers as CSV."""
    path = out / f"{outcome.name}.csv"
    write_atomically(path, csv_bytes(outcome.columns, outcome.rows))
    return path


def save_png(outcome: Finding, out: Path) -> Path:
    """Draw and write the plot; needs matplotlib."""
    path = out / f"{outcome.name}.png"
    try:
        from matplotlib.figure import Figure
    except ModuleNotFoundError as error:
        raise MissingResearchExtra(f"no {path}: matplotlib is not installed; {EXTRA}") from error
    figure = Figure(figsize=(10, 6), layout="constrained")
    outcome.draw(figure)
    image = io.BytesIO()
    figure.savefig(image, format="png", dpi=150)
    write_atomically(path, image.getvalue())
    return path


def text_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table with aligned columns: the first to the left, the others to the right.

    >>> print(text_table(("set", "MAJ"), [("birds", "0.241")]))
    set      MAJ
    birds  0.241
    """
    widths = [max(map(len, column)) for column in zip(header, *rows, strict=True)]
    lines = []
    for first, *rest in (header, *rows):
        cells = [text.rjust(width) for text, width in zip(rest, widths[1:], strict=True)]
        lines.append("  ".join([first.ljust(widths[0]), *cells]).rstrip())
    return "\n".join(lines)


# The error at each average number of labels per task, as a table and a plot.


COLUMNS = ("policy", "labels_per_task", "error", "low", "high")
ErrorRow = tuple[str, int, float, float, float]


def error_by_labels(
    name: str, title: str, tasks: int, errors: Mapping[str, Sequence[float]]
) -> Finding:
    """Build the table and plot of the errors of each policy at 1, 2, ... labels per task.

    >>> print(error_by_labels("x", "A crowd", 100, {"uniform": [0.3, 0.25]}).text)
    A crowd
    <BLANKLINE>
    labels per task  uniform      99% interval
    1                 0.3000  0.1968 to 0.4281
    2                 0.2500  0.1554 to 0.3757
    """
    rows = [
        (policy, size, error, *agresti_coull(error, tasks))
        for policy, each in errors.items()
        for size, error in enumerate(each, 1)
    ]
    return Finding(name, COLUMNS, rows, f"{title}\n\n{_table(rows)}", partial(_draw, title, rows))


def _table(rows: Sequence[ErrorRow]) -> str:
    policies = list(dict.fromkeys(row[0] for row in rows))
    cells = {(policy, size): (error, low, high) for policy, size, error, low, high in rows}
    header = ["labels per task"]
    for policy in policies:
        header += [policy, "99% interval"]
    lines = []
    for size in sorted({size for _, size in cells}):
        line = [str(size)]
        for policy in policies:
            error, low, high = cells.get((policy, size), (None, 0.0, 0.0))
            line += ["", ""] if error is None else [f"{error:.4f}", f"{low:.4f} to {high:.4f}"]
        lines.append(line)
    return text_table(header, lines)


def _draw(title: str, rows: Sequence[ErrorRow], figure: "Figure") -> None:
    axes = figure.subplots()
    for policy in dict.fromkeys(row[0] for row in rows):
        own = [row for row in rows if row[0] == policy]
        size, error, low, high = zip(*(row[1:] for row in own), strict=True)
        axes.plot(size, error, label=policy)
        axes.fill_between(size, low, high, alpha=0.2)
    axes.set_ylim(bottom=0)
    axes.grid(alpha=0.4)
    axes.set_title(title, fontsize="medium")
    axes.set_xlabel("labels per task on average; the band is the 99% interval")
    axes.set_ylabel("prediction error")
    axes.legend()


def error_by_cost(
    name: str, title: str, tasks: int, costs: Sequence[float], errors: Sequence[float]
) -> Finding:
    """Build the table and plot of the error by what was spent on a task.

    >>> print(error_by_cost("x", "A crowd", 100, [50.0, 80.0], [0.3, 0.25]).text)
    A crowd
    <BLANKLINE>
    spent on a task   error      99% interval
    0.5              0.3000  0.1968 to 0.4281
    0.8              0.2500  0.1554 to 0.3757
    """
    rows = [
        (cost / tasks, error, *agresti_coull(error, tasks))
        for cost, error in zip(costs, errors, strict=True)
    ]
    lines = [
        (f"{cost:.4g}", f"{error:.4f}", f"{low:.4f} to {high:.4f}")
        for cost, error, low, high in rows
    ]
    text = text_table(("spent on a task", "error", "99% interval"), lines)

    def draw(figure: "Figure") -> None:
        axes = figure.subplots()
        axes.plot([row[0] for row in rows], [row[1] for row in rows], "o-")
        axes.set_ylim(bottom=0)
        axes.grid(alpha=0.4)
        axes.set_xlabel("spent on a task")
        axes.set_ylabel("share of wrong predictions")
        axes.set_title(title)

    return Finding(name, ("spent", "error", "low", "high"), rows, f"{title}\n\n{text}", draw)
