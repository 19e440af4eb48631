"""Figure 3: the time of a whole run with the uncertainty policy.

Workers arrive in blocks. A run is the same as in `figure1`: tasks are chosen one at a time, each
label is counted, and the estimate is computed at the end; compiling is not included. It is
processor time, which other work on the machine disturbs little. Times of different machines are not
comparable, so each is also given as a ratio to that of majority vote on the same crowd, in the same
process, right before and right after.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from statistics import fmean, stdev
from time import process_time
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from sbic.infer.registry import ALGORITHMS, ONLINE
from sbic.research.outcome import Finding, text_table
from sbic.research.running import Case, Result, run
from sbic.research.simulated import SimulatedCrowd, draw_crowd, uncertainty_run

if TYPE_CHECKING:
    from matplotlib.figure import Figure


LABELS_PER_TASK = (10, 20, 40)
TIMED = tuple(name for name in ONLINE if name != "em")  # which is the same code as AMF

# From an earlier implementation, from R = 10 to R = 40; for Fast SBIC the upper limit.
REFERENCE: Mapping[str, str] = {
    "fast-sbic": "at most 1.5",
    "sorted-sbic": "5 to 7",
    "kos": "14 to 78",
    "amf": "55 to 310",
    "em": "55 to 310",
    "mc": "63 to 190",
}
NOTES = """\
The paper has this figure only as a plot, without numbers, and says that Fast SBIC takes as long as
MAJ and all others orders of magnitude longer. The reference is from an earlier implementation.
Even processor times vary with the load of the machine."""


class Point(NamedTuple):
    """The time of a run of an algorithm with R labels per task, and its ratio to MAJ's."""

    algorithm: str
    labels_per_task: int
    seconds: float
    seconds_sd: float | None
    ratio: float
    ratio_sd: float | None
    runs: int


def figure3(
    out: Path,
    *,
    algorithms: Sequence[str],
    tasks: int,
    labels_per_worker: int,
    runs: int,
    seed: int,
    jobs: int,
) -> Finding:
    """Measure the cases that are not yet in the journal, and build the figure."""
    cases: list[Case] = [
        {
            "tasks": tasks,
            "labels_per_worker": labels_per_worker,
            "labels_per_task": labels_per_task,
            "algorithm": algorithm,
            "run": number,
        }
        for number in range(runs)
        for labels_per_task in LABELS_PER_TASK
        for algorithm in algorithms
    ]
    journal = out / "figure3.jsonl"
    results = run(measure, cases, seed=seed, jobs=jobs, journal=journal, title="Figure 3")
    points = summary(cases, results)
    text = f"{title(tasks, labels_per_worker)}\n\n{as_table(points)}\n\n{NOTES}"
    picture = partial(draw, title(tasks, labels_per_worker), points)
    return Finding("figure3", Point._fields, points, text, picture)


def measure(case: Case, rng: np.random.Generator) -> Result:
    """Return the seconds that an algorithm and MAJ take for the same crowd."""
    name = str(case["algorithm"])
    size = int(case["tasks"]), int(case["labels_per_task"]), int(case["labels_per_worker"])
    few = draw_crowd(size[2], 1, size[2], "blocks", rng)
    crowd = draw_crowd(*size, "blocks", rng)
    for warmed_up in (name, "majority"):
        seconds(warmed_up, few, rng)
    before = seconds("majority", crowd, rng)
    own = seconds(name, crowd, rng)
    after = seconds("majority", crowd, rng)
    return {"seconds": own, "majority_seconds": (before + after) / 2}


def seconds(name: str, crowd: SimulatedCrowd, rng: np.random.Generator) -> float:
    """Return the time of one run."""
    begin = process_time()
    simulation, algorithm = uncertainty_run(name, crowd, rng)
    simulation.advance(len(crowd.right))
    algorithm.estimate()
    return process_time() - begin


def summary(cases: Sequence[Case], results: Sequence[Result]) -> list[Point]:
    """Return the mean time and ratio of every algorithm at every R."""
    times: dict[tuple[str, int], list[Result]] = {}
    for case, result in zip(cases, results, strict=True):
        place = str(case["algorithm"]), int(case["labels_per_task"])
        times.setdefault(place, []).append(result)
    points = []
    for (algorithm, size), each in times.items():
        own = [result["seconds"] for result in each]
        ratio = [result["seconds"] / result["majority_seconds"] for result in each]
        points.append(
            Point(algorithm, size, fmean(own), spread(own), fmean(ratio), spread(ratio), len(each))
        )
    return points


def spread(values: Sequence[float]) -> float | None:
    """Return the standard deviation; a single value has none."""
    return stdev(values) if len(values) > 1 else None


def title(tasks: int, labels_per_worker: int) -> str:
    """Return the title of the figure."""
    return (
        f"Figure 3: time of a run, uncertainty policy, {tasks} tasks, {labels_per_worker} labels "
        "per worker, workers in blocks"
    )


def as_table(points: Sequence[Point]) -> str:
    """Return a table of ratios to MAJ, and of seconds on this machine."""
    sizes = sorted({point.labels_per_task for point in points})
    rows = []
    for name in dict.fromkeys(point.algorithm for point in points):
        own = sorted(
            (point for point in points if point.algorithm == name), key=lambda p: p.labels_per_task
        )
        ratios = [with_spread(p.ratio, p.ratio_sd, 1) for p in own]
        times = [with_spread(p.seconds, p.seconds_sd, 2) for p in own]
        entry = ALGORITHMS[name]
        rows.append((entry.title, "times MAJ", *ratios, REFERENCE.get(name, ""), str(own[0].runs)))
        rows.append(("", "seconds", *times, "", ""))
    header = ("", "", *(f"R = {size}" for size in sizes), "reference", "runs")
    return text_table(header, rows)


def with_spread(value: float, deviation: float | None, digits: int) -> str:
    """Return a mean, with the standard deviation if there is one.

    >>> with_spread(12.34, 0.51, 1), with_spread(1.234, None, 2)
    ('12.3 ± 0.5', '1.23')
    """
    mean = f"{value:.{digits}f}"
    return mean if deviation is None else f"{mean} ± {deviation:.{digits}f}"


def draw(heading: str, points: Sequence[Point], figure: "Figure") -> None:
    """Draw a line for each algorithm, in milliseconds on a logarithmic scale."""
    axes = figure.subplots()
    for place, name in enumerate(ONLINE):
        own = [point for point in points if point.algorithm == name]
        if own:
            axes.errorbar(
                [point.labels_per_task for point in own],
                [1000 * point.seconds for point in own],
                [1000 * (point.seconds_sd or 0) for point in own],
                label=ALGORITHMS[name].title,
                color=f"C{place}",
                marker="o",
                markersize=3,
            )
    axes.set_yscale("log")
    axes.grid(alpha=0.4)
    axes.set_title(heading, fontsize="medium")
    axes.set_xlabel("labels per task, R")
    axes.set_ylabel("processor time (ms), mean and standard deviation")
    axes.legend()
