"""The error at each average number of labels per task, as a table and a plot."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from pipeline.experiments.intervals import agresti_coull
from pipeline.experiments.outcome import Outcome, text_table

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COLUMNS = ("policy", "labels_per_task", "error", "low", "high")
Row = tuple[str, int, float, float, float]


def error_by_labels(
    name: str, title: str, tasks: int, errors: Mapping[str, Sequence[float]]
) -> Outcome:
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
    return Outcome(name, COLUMNS, rows, f"{title}\n\n{_table(rows)}", partial(_draw, title, rows))


def _table(rows: Sequence[Row]) -> str:
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


def _draw(title: str, rows: Sequence[Row], figure: "Figure") -> None:
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
