"""Figure 1: the error of every algorithm on simulated crowds, as numbers, text and plot.

With the uniform policy the labels do not depend on the algorithm: they are collected first, and
the algorithms of the registry run on all of them (Fast SBIC in the order of arrival). With the
uncertainty policy the algorithm runs online, and its scores choose the tasks.

If workers arrive in blocks, the first labels of a large crowd are those of a small one, so one
run is measured at every R. If they are interleaved, a small crowd is not the beginning of a large
one, and every R needs a separate run.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from math import comb, exp
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from sbic.engine.labels import Algorithm, AnyEstimate, Estimate, standard_error
from sbic.infer.intervals import agresti_coull
from sbic.infer.registry import ALGORITHMS, ONLINE
from sbic.research.baselines import SYNTHETIC_ITERATIONS, kos
from sbic.research.bounds import bounds
from sbic.research.outcome import Finding, text_table
from sbic.research.running import Case, Result, run
from sbic.research.simulated import PRIOR, SimulatedCrowd, draw_crowd, uncertainty_run, uniform_run

if TYPE_CHECKING:
    from matplotlib.figure import Figure


HEADLINE = (10, 20, 40, 80)  # the R of the printed table

# From an independent earlier simulation: 1000 tasks, 10 labels per worker, Beta(4, 3).
REFERENCE: Mapping[tuple[str, str], Mapping[str, Sequence[float]]] = {
    ("uniform", "blocks"): {
        "em": (0.228, 0.108, 0.046, 0.0183),
        "amf": (0.226, 0.104, 0.041, 0.0148),
        "kos": (0.230, 0.111, 0.033, 0.0037),
        "mc": (0.229, 0.100, 0.026, 0.0025),
        "fast-sbic": (0.301, 0.206, 0.096, 0.0198),
        "sorted-sbic": (0.252, 0.125, 0.0332, 0.0031),
        "settled": (0.2214, 0.1015, 0.0295, 0.0028),
        "settled-live": (0.2485, 0.1135, 0.0309, 0.0030),
    },
    ("uncertainty", "blocks"): {
        "majority": (0.283, 0.204, 0.109, 0.030),
        "fast-sbic": (0.275, 0.187, 0.080, 0.0043),
        "sorted-sbic": (0.229, 0.104, 0.0085),
    },
    ("uncertainty", "interleaved"): {
        "majority": (0.281, 0.210, 0.111, 0.029),
        "fast-sbic": (0.246, 0.123, 0.016, 0.00006),
        "sorted-sbic": (0.198, 0.055, 0.0012),
        "settled-live": (0.210, 0.052, 0.0007),
    },
}

SHOWN = {
    "blocks": "each worker gives all their labels in a row, then leaves (--arrival blocks)",
    "interleaved": "the workers take turns, one label at a time (--arrival interleaved)",
}
FOUND = {
    "uniform": """\
Found: with the uniform policy the order of arrival makes little difference.""",
    "uncertainty": """\
Found: with the uncertainty policy the order of arrival, which the paper does not give, matters a
lot. With 1000 tasks and 10 labels per worker, Fast SBIC errs at R = 40 on 8% of the tasks if
workers arrive in blocks and on 1.5% if they take turns, Sorted SBIC on 0.9% and 0.1%; MAJ, which
does not estimate accuracies, on 11% either way. A worker who takes turns is known better at the
next label, since others have answered the same tasks meanwhile: the accuracy that Fast SBIC
estimates has a correlation of 0.48 with the true one, and of 0.19 in blocks.""",
}
NOTES = """\
The paper has this figure only as a plot, without numbers. The reference for MAJ with the uniform
policy is exact; the others are from an independent earlier simulation.
The interval (Agresti-Coull, 99%, as in the paper) assumes independent tasks. Tasks of one run share
workers and are not quite independent: the CSV also has the standard error over the runs."""


class Setting(NamedTuple):
    """The crowd, and the policy that chooses its tasks."""

    policy: str
    arrival: str
    tasks: int
    labels_per_worker: int
    max_labels: int


class Figure1Point(NamedTuple):
    """The mean error of an algorithm at R labels per task, with its uncertainty."""

    algorithm: str
    labels_per_task: int
    error: float
    low: float
    high: float
    standard_error: float | None
    runs: int


def caption(setting: Setting) -> str:
    """Return what the figure shows, and the finding about the order of arrival."""
    return f"Shown: {SHOWN[setting.arrival]}.\n{FOUND[setting.policy]}"


def title(setting: Setting) -> str:
    """Return the title of the figure."""
    return (
        f"Figure 1: share of wrong predictions, {setting.policy} policy, {setting.tasks} tasks, "
        f"{setting.labels_per_worker} labels per worker"
    )


def as_text(setting: Setting, points: Sequence[Figure1Point]) -> str:
    """Our errors at the headline R, with intervals and reference values."""
    sizes = sorted({size for size in HEADLINE if size < setting.max_labels} | {setting.max_labels})
    rows = []
    for name in dict.fromkeys(point.algorithm for point in points):
        own = {point.labels_per_task: point for point in points if point.algorithm == name}
        at = [own[size] for size in sizes]
        rows.append(
            (ALGORITHMS[name].title, "ours", *(share(p.error) for p in at), f"{at[0].runs}")
        )
        rows.append(("", "99% from", *(share(p.low) for p in at), ""))
        rows.append(("", "to", *(share(p.high) for p in at), ""))
        expected = [reference(setting, name, size) for size in sizes]
        if any(value is not None for value in expected):
            rows.append(("", "reference", *(share(value) for value in expected), ""))
    table = text_table(("", "", *(f"R = {size}" for size in sizes), "runs"), rows)
    return f"{title(setting)}\n\n{table}\n\n{caption(setting)}\n{NOTES}"


def share(value: float | None) -> str:
    """Return a share with its significant digits.

    >>> share(0.25), share(0.00006), share(None)
    ('0.2500', '0.00006', '')
    """
    return "" if value is None else f"{value:.4f}" if value >= 0.001 else f"{value:.5f}"


def reference(setting: Setting, algorithm: str, labels_per_task: int) -> float | None:
    """Return the reference value of the error, if there is one.

    >>> reference(Setting("uncertainty", "blocks", 1000, 10, 80), "fast-sbic", 40)
    0.08
    """
    if setting.policy == "uniform" and algorithm == "majority":
        return majority_error(labels_per_task, PRIOR.alpha / (PRIOR.alpha + PRIOR.beta))
    if (setting.tasks, setting.labels_per_worker) != (1000, 10):
        return None
    known = REFERENCE.get((setting.policy, setting.arrival), {}).get(algorithm, ())
    return dict(zip(HEADLINE, known, strict=False)).get(labels_per_task)


def majority_error(labels: int, accuracy: float) -> float:
    """Get the probability that most of this many independent labels are wrong; a tie counts half.

    >>> [round(majority_error(labels, 4 / 7), 4) for labels in HEADLINE]
    [0.3289, 0.263, 0.1834, 0.1002]
    """
    error = 0.0
    for right in range(labels // 2 + 1):
        weight = 0.5 if 2 * right == labels else 1.0
        wrong = labels - right
        error += weight * comb(labels, right) * accuracy**right * (1 - accuracy) ** wrong
    return error


# Figure 1 as a plot, with the bounds of Theorems 1 and 2.


ENOUGH_WRONG = 20  # predictions, for a bound to be drawn through their share
LEAST_ERROR = {"uniform": 1e-3, "uncertainty": 1e-4}  # as in the paper


def draw(setting: Setting, points: Sequence[Figure1Point], figure: "Figure") -> None:
    """Draw a line for each algorithm, on a logarithmic scale, and dotted ones for the bounds."""
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
    setting: Setting, algorithm: str, points: Sequence[Figure1Point]
) -> tuple[Sequence[int], Sequence[float]]:
    """Return the line of SBIC's bound, through the last point with enough wrong predictions."""
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


QUICK = ("majority", "fast-sbic", "settled-live")


def default_runs(setting: Setting, algorithm: str) -> int:
    """Return the default number of runs: all algorithms together take a few minutes on two cores.

    >>> blocks = Setting("uncertainty", "blocks", 1000, 10, 80)
    >>> [default_runs(blocks, name) for name in ("majority", "sorted-sbic", "kos")]
    [100, 40, 2]
    """
    if setting.policy == "uniform":
        return 200 if algorithm in QUICK else 20 if algorithm == "mc" else 60
    quick, slower, slow = (100, 40, 2) if setting.arrival == "blocks" else (40, 20, 1)
    if algorithm in QUICK:
        return quick
    return slower if algorithm in ("sorted-sbic", "settled") else slow


def figure1(
    setting: Setting,
    out: Path,
    *,
    algorithms: Sequence[str],
    runs: int | None,
    seed: int,
    jobs: int,
) -> Finding:
    """Run the cases that are not yet in the journal, and build the figure."""
    cases = [
        case
        for name in algorithms
        for case in cases_of(setting, name, runs or default_runs(setting, name))
    ]
    title = f"Figure 1, {setting.policy}"
    journal = out / "figure1.jsonl"
    results = run(measure, cases, seed=seed, jobs=jobs, journal=journal, title=title)
    points = summary(cases, results)
    name = f"figure1-{setting.policy}-{setting.arrival}"
    return Finding(
        name, Figure1Point._fields, points, as_text(setting, points), partial(draw, setting, points)
    )


def cases_of(setting: Setting, algorithm: str, runs: int) -> list[Case]:
    """One case for each crowd of each run."""
    sizes = measured_at(setting, algorithm)
    if setting.arrival == "blocks":
        sizes = sizes[-1:]
    return [
        {**setting._asdict(), "algorithm": algorithm, "labels_per_task": size, "run": number}
        for number in range(runs)
        for size in sizes
    ]


def measured_at(setting: Setting, algorithm: str) -> list[int]:
    """Get the R at which the error is measured: all if that is cheap, otherwise about every tenth.

    >>> measured_at(Setting("uniform", "blocks", 1000, 10, 25), "em")
    [1, 2, 5, 10, 20, 25]
    """
    most = setting.max_labels
    if setting.arrival == "blocks" and algorithm in QUICK:
        return list(range(1, most + 1))
    is_slow = setting.policy == "uncertainty" and algorithm not in QUICK
    if setting.arrival == "interleaved" and is_slow:
        return sorted({size for size in HEADLINE if size < most} | {most})
    return sorted({size for size in (1, 2, 5, *range(10, most, 10)) if size < most} | {most})


def measure(case: Case, rng: np.random.Generator) -> Result:
    """Return the error of one algorithm on one crowd, by labels per task."""
    setting = Setting(*(case[name] for name in Setting._fields))  # type: ignore[arg-type]
    algorithm, size = str(case["algorithm"]), int(case["labels_per_task"])
    crowd = draw_crowd(setting.tasks, size, setting.labels_per_worker, setting.arrival, rng)
    sizes = measured_at(setting, algorithm) if setting.arrival == "blocks" else [size]
    estimates = uniform if setting.policy == "uniform" else uncertainty
    return {
        str(labels_per_task): estimate.error((crowd.truth + 1) // 2)
        for labels_per_task, estimate in zip(
            sizes, estimates(algorithm, crowd, sizes, rng), strict=True
        )
    }


def uniform(
    name: str, crowd: SimulatedCrowd, sizes: Sequence[int], rng: np.random.Generator
) -> Iterator[AnyEstimate]:
    """Yield the estimates of the offline algorithm at these labels per task, evenly spread."""
    algorithm: Algorithm = ALGORITHMS[name].load()
    if name == "kos":
        algorithm = partial(kos, iterations=SYNTHETIC_ITERATIONS)
    simulation = uniform_run(crowd, rng)
    for size in sizes:
        simulation.advance(size * crowd.tasks)
        yield algorithm(simulation.labels(), PRIOR, rng)


def uncertainty(
    name: str, crowd: SimulatedCrowd, sizes: Sequence[int], rng: np.random.Generator
) -> Iterator[Estimate]:
    """Yield estimates of the online algorithm at these labels per task, on tasks it chose."""
    simulation, algorithm = uncertainty_run(name, crowd, rng)
    for size in sizes:
        simulation.advance(size * crowd.tasks)
        yield algorithm.estimate()


def summary(cases: Sequence[Case], results: Sequence[Result]) -> list[Figure1Point]:
    """Return the mean error of every algorithm at every R."""
    errors: dict[tuple[str, int], list[float]] = {}
    for case, result in zip(cases, results, strict=True):
        for size, error in result.items():
            place = str(case["algorithm"]), int(size)
            errors.setdefault(place, []).append(error)
    tasks = int(cases[0]["tasks"])
    points = []
    for place, each in errors.items():
        error = fmean(each)
        low, high = agresti_coull(error, tasks * len(each))
        points.append(Figure1Point(*place, error, low, high, standard_error(each), len(each)))
    return points
