"""Figure 1: the error of every algorithm on simulated crowds, as labels arrive.

With the uniform policy the labels do not depend on the algorithm: they are collected first, and the
algorithms of the registry run on all of them (Fast SBIC in the order of arrival). With the
uncertainty policy the algorithm runs online, and its scores choose the tasks.

If workers arrive in blocks, the first labels of a large crowd are those of a small one, so one run
is measured at every R. If they are interleaved, a small crowd is not the beginning of a large one,
and every R needs a separate run.
"""

from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from statistics import fmean

import numpy as np

from pipeline.experiments.crowd import PRIOR, Crowd, draw_crowd
from pipeline.experiments.figure1_picture import draw
from pipeline.experiments.figure1_table import HEADLINE, Point, Setting, as_text
from pipeline.experiments.intervals import agresti_coull
from pipeline.experiments.journal import Case, Result
from pipeline.experiments.outcome import Outcome
from pipeline.experiments.runner import run
from pipeline.experiments.simulation import uncertainty_run, uniform_run
from pipeline.inference.algorithm import Algorithm, AnyEstimate, Estimate
from pipeline.inference.evaluation import standard_error
from pipeline.inference.kos import SYNTHETIC_ITERATIONS, kos
from pipeline.inference.registry import ALGORITHMS

QUICK = ("majority", "fast-sbic", "settled-live")


def default_runs(setting: Setting, algorithm: str) -> int:
    """The default number of runs: all algorithms together take a few minutes on two cores.

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
) -> Outcome:
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
    return Outcome(
        name, Point._fields, points, as_text(setting, points), partial(draw, setting, points)
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
    """The R at which the error is measured: all if that is cheap, otherwise about every tenth.

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
    """The error of one algorithm on one crowd, by labels per task."""
    setting = Setting(*(case[name] for name in Setting._fields))  # type: ignore[arg-type]
    algorithm, size = str(case["algorithm"]), int(case["labels_per_task"])
    crowd = draw_crowd(setting.tasks, size, setting.labels_per_worker, setting.arrival, rng)
    sizes = measured_at(setting, algorithm) if setting.arrival == "blocks" else [size]
    estimates = uniform if setting.policy == "uniform" else uncertainty
    return {
        str(labels_per_task): estimate.error(crowd.truth)
        for labels_per_task, estimate in zip(
            sizes, estimates(algorithm, crowd, sizes, rng), strict=True
        )
    }


def uniform(
    name: str, crowd: Crowd, sizes: Sequence[int], rng: np.random.Generator
) -> Iterator[AnyEstimate]:
    """The estimates of the offline algorithm at these labels per task, evenly spread."""
    algorithm: Algorithm = ALGORITHMS[name].load()
    if name == "kos":
        algorithm = partial(kos, iterations=SYNTHETIC_ITERATIONS)
    simulation = uniform_run(crowd, rng)
    for size in sizes:
        simulation.advance(size * crowd.tasks)
        yield algorithm(simulation.labels(), PRIOR, rng)


def uncertainty(
    name: str, crowd: Crowd, sizes: Sequence[int], rng: np.random.Generator
) -> Iterator[Estimate]:
    """The estimates of the online algorithm at these labels per task, on tasks that it chose."""
    simulation, algorithm = uncertainty_run(name, crowd, rng)
    for size in sizes:
        simulation.advance(size * crowd.tasks)
        yield algorithm.estimate()


def summary(cases: Sequence[Case], results: Sequence[Result]) -> list[Point]:
    """The mean error of every algorithm at every R."""
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
        points.append(Point(*place, error, low, high, standard_error(each), len(each)))
    return points
