"""Figure 1 as a plot, with the bounds of Theorems 1 and 2."""

from collections.abc import Sequence
from math import exp
from typing import TYPE_CHECKING

from pipeline.experiments.crowd import PRIOR
from pipeline.experiments.figure1_table import Point, Setting, caption, title
from pipeline.inference.bounds import bounds
from pipeline.inference.registry import ALGORITHMS, ONLINE

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ENOUGH_WRONG = 20  # predictions, for a bound to be drawn through their share
LEAST_ERROR = {"uniform": 1e-3, "uncertainty": 1e-4}  # as in the paper


def draw(setting: Setting, points: Sequence[Point], figure: "Figure") -> None:
    """A line for each algorithm on a logarithmic scale, and dotted lines for the bounds."""
    axes = figure.subplots()
    for place, name in enumerate(ONLINE):
        own = [point for point in points if point.algorithm == name and point.error > 0]
        size = [point.labels_per_task for point in own]
        error = [point.error for point in own]
        # if almost nothing was wrong, the lower end of the interval may be above the share itself
        below = [max(0, point.error - point.low) for point in own]
        above = [max(0, point.high - point.error) for point in own]
        colour = f"C{place}"
        if own:
            label = ALGORITHMS[name].title
            axes.errorbar(size, error, (below, above), label=label, color=colour, elinewidth=0.5)
        axes.plot(*bound(setting, name, own), ":", color=colour)
    axes.errorbar([], [], fmt="k:", label="bounds of Theorems 1 and 2,\nup to a constant")
    axes.set_yscale("log")
    axes.set_ylim(LEAST_ERROR[setting.policy], 0.8)
    axes.set_xlim(1, max(setting.max_labels, 2))
    axes.grid(alpha=0.4)
    axes.set_title(title(setting), fontsize="medium")
    axes.set_ylabel("prediction error (0 is not drawn)")
    axes.set_xlabel(f"labels per task, R\n\n{caption(setting)}", fontsize="small")
    axes.legend(loc="lower left", fontsize="small")


def bound(
    setting: Setting, algorithm: str, points: Sequence[Point]
) -> tuple[Sequence[int], Sequence[float]]:
    """The line of SBIC's bound, through the last point with enough wrong predictions."""
    sure = [p for p in points if p.error * p.runs * setting.tasks >= ENOUGH_WRONG]
    factor = factor_per_label(setting, algorithm)
    if not sure or factor is None:
        return [], []
    sizes = range(1, setting.max_labels + 1)
    last = sure[-1]
    return sizes, [last.error * factor ** (size - last.labels_per_task) for size in sizes]


def factor_per_label(setting: Setting, algorithm: str) -> float | None:
    """By how much the bound falls with each label per task.

    >>> blocks = Setting("uncertainty", "blocks", 1000, 10, 80)
    >>> round(factor_per_label(blocks, "fast-sbic"), 4), factor_per_label(blocks, "majority")
    (0.8748, None)
    """
    rate = bounds(setting.labels_per_worker, PRIOR)
    if algorithm == "fast-sbic":
        return rate.f_fast if setting.policy == "uniform" else exp(-rate.g_fast)
    if algorithm == "sorted-sbic":
        return rate.f_sorted if setting.policy == "uniform" else exp(-rate.g_sorted)
    return None
