"""Whether a confidence means what it says where workers are independent: on simulated crowds.

Two promises of `settled` that can only be seen where everything is known:

    calibration   honesty must not become modesty: what is published of workers who do not err
                  together is as sure as it is right (ECE)
    majority      while little is known, as labels arrive and at rest, it is not worse than
                  counting votes: at 1 to 12 labels per task

A worker is right with the worker's own accuracy, and otherwise gives one of the other classes, each
with the same probability. All workers give nearly the same number of labels, to tasks drawn at
random, in a random order. A crowd that is hardly more often right than by chance is drawn anew: if
most of its answers are wrong, no model can know it without gold.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from sbic.engine.labels import Floats, Ints, Labels
from sbic.infer.agreement import calibration_error
from sbic.infer.dawid_skene import votes
from sbic.research.honesty import (
    UNKNOWN,
    grid,
    judged,
    offline,
    published,
    reliability,
    settle,
)
from sbic.research.outcome import Finding, text_table
from sbic.research.running import Case, Result, run

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Accuracies = Callable[[int, int, np.random.Generator], Floats]
SPAMMERS, ADVERSARIES = 0.3, 0.1
ADVERSARY = 0.2  # the accuracy of one
GOLD = 50  # tasks, for the comparison of calibrated predictions with the majority
UP_TO = 12  # labels per task
BETTER_THAN_CHANCE = 0.02  # the least, in the mean of all workers


def paper(workers: int, classes: int, rng: np.random.Generator) -> Floats:
    """Accuracies as in the paper: Beta(4, 3)."""
    return rng.beta(4, 3, workers)


def weak(workers: int, classes: int, rng: np.random.Generator) -> Floats:
    """Beta(5.5, 4.5): right in 55 % on average."""
    return rng.beta(5.5, 4.5, workers)


def alike(workers: int, classes: int, rng: np.random.Generator) -> Floats:
    """Everybody is right in 55 %."""
    return np.full(workers, 0.55)


def spammed(workers: int, classes: int, rng: np.random.Generator) -> Floats:
    """Draw accuracies of a crowd in which some answer at random."""
    return np.where(rng.random(workers) < SPAMMERS, 1 / classes, paper(workers, classes, rng))


def attacked(workers: int, classes: int, rng: np.random.Generator) -> Floats:
    """Draw accuracies of a crowd in which some are wrong on purpose."""
    return np.where(rng.random(workers) < ADVERSARIES, ADVERSARY, paper(workers, classes, rng))


class CrowdKind(NamedTuple):
    """The shares of the classes, and the accuracies of workers."""

    shares: tuple[float, ...]
    accuracies: Accuracies = paper


def even(classes: int) -> tuple[float, ...]:
    """Classes of the same share."""
    return (1 / classes,) * classes


KINDS = {
    "2 classes": CrowdKind(even(2)),
    "3 classes": CrowdKind(even(3)),
    "4 classes": CrowdKind(even(4)),
    "5 classes": CrowdKind(even(5)),
    "80/20": CrowdKind((0.8, 0.2)),
    "70/15/10/5": CrowdKind((0.7, 0.15, 0.1, 0.05)),
    "all right in 55 %": CrowdKind(even(2), alike),
    "Beta(5.5, 4.5)": CrowdKind(even(2), weak),
    "30 % spammers": CrowdKind(even(2), spammed),
    "10 % adversaries": CrowdKind(even(2), attacked),
}


class Dimensions(NamedTuple):
    """How large a crowd is."""

    tasks: int
    labels_per_task: int
    labels_per_worker: int


# The kinds and sizes whose calibration is measured, and the ECE that each may have.
CALIBRATED = [
    *(
        (name, Dimensions(1_000, UP_TO, each), 0.05)
        for name in ("2 classes", "3 classes", "4 classes", "10 % adversaries")
        for each in (20, 60, 500)  # of 500 labels each: 24 workers
    ),
    *(
        (name, Dimensions(tasks, UP_TO, each), 0.08)
        for name in ("80/20", "70/15/10/5")
        for tasks in (1_000, 6_000)
        for each in (20, 60, 500)
    ),
]
# The kinds that are compared with the majority, at each number of labels per task.
COMPARED = [
    (name, Dimensions(400, labels, each))
    for name in KINDS
    if name != "70/15/10/5"
    for each in (20, 100)
    for labels in range(1, UP_TO + 1)
]
WORSE = 0.03  # than the majority: the most that is promised


def simulated(kind: CrowdKind, size: Dimensions, rng: np.random.Generator) -> tuple[Labels, Ints]:
    """Draw a crowd: its labels in random order, and the truth of its tasks.

    >>> labels, truth = simulated(KINDS["80/20"], Dimensions(10, 3, 6), np.random.default_rng(1))
    >>> len(labels), labels.workers, np.bincount(labels.worker).tolist()
    (30, 5, [6, 6, 6, 6, 6])
    """
    classes, total = len(kind.shares), size.tasks * size.labels_per_task
    workers = max(-(-total // size.labels_per_worker), size.labels_per_task)
    given = np.zeros(workers)
    chosen = []
    for _ in range(size.tasks):
        order = np.argpartition(given + rng.random(workers), size.labels_per_task - 1)
        chosen.append(order[: size.labels_per_task])
        given[chosen[-1]] += 1
    task = np.repeat(np.arange(size.tasks), size.labels_per_task)
    worker = np.concatenate(chosen)
    truth = rng.choice(classes, size.tasks, p=kind.shares)
    accuracy = kind.accuracies(workers, classes, rng)
    while accuracy.mean() < 1 / classes + BETTER_THAN_CHANCE:
        accuracy = kind.accuracies(workers, classes, rng)
    is_right = rng.random(total) < accuracy[worker]
    other = (truth[task] + rng.integers(1, classes, total)) % classes
    answer = np.where(is_right, truth[task], other)
    order = rng.permutation(total)
    names = tuple(map(str, range(size.tasks))), tuple(map(str, range(workers)))
    every = Labels(task, worker, answer, *names, tuple(map(str, range(classes))))
    return every.in_order(order), truth


def majority_error(labels: Labels, truth: Ints) -> float:
    """Return the share of wrong majorities, if ties are drawn."""
    count = votes(labels)
    most = count == count.max(axis=1, keepdims=True)
    return float(1 - (most[np.arange(len(truth)), truth] / most.sum(axis=1)).mean())


def error(p: Floats, truth: Ints) -> float:
    """Return the share of wrong predictions."""
    return float((p.argmax(axis=1) != truth).mean())


def measure(case: Case, rng: np.random.Generator) -> Result:
    """Draw a crowd; let the labels arrive, let them settle, let the truth of some be known."""
    size = Dimensions(*(int(case[name]) for name in Dimensions._fields))
    labels, truth = simulated(KINDS[str(case["crowd"])], size, rng)
    engine = offline(labels)
    live = published(engine, labels.tasks).probabilities
    settle(engine, np.full(labels.tasks, UNKNOWN))
    belief = engine.inner_beliefs(np.arange(labels.tasks))
    inside = belief.max(axis=1), (belief.argmax(axis=1) == truth).astype(np.float64)
    rest = published(engine, labels.tasks)
    found = {
        **judged(rest.probabilities, truth),
        "inside_ece": calibration_error(*inside),
        "live": error(live, truth),
        "majority": majority_error(labels, truth),
        "votes": float(np.median(rest.votes)),
    }
    gold = np.full(labels.tasks, UNKNOWN)
    drawn = rng.permutation(labels.tasks)[:GOLD]
    gold[drawn] = truth[drawn]
    settle(engine, gold)
    others = np.flatnonzero(gold == UNKNOWN)
    told = judged(published(engine, labels.tasks).probabilities[others], truth[others])
    return {**found, "told": told["error"], "told_ece": told["ece"]}


# The tables and the figure.


class CrowdMeans(NamedTuple):
    """The means of one kind of crowd of one size, over several seeds."""

    crowd: str
    tasks: int
    labels_per_task: int
    labels_per_worker: int
    error: float
    expected: float
    ece: float
    inside_ece: float
    votes: float
    live: float
    majority: float
    told: float
    told_ece: float


def independent(out: Path, *, seeds: int, seed: int, jobs: int) -> Finding:
    """Run the cases that are not yet in the journal, and build both tables."""
    wanted = [(name, size) for name, size, _ in CALIBRATED] + COMPARED
    cases: list[Case] = [
        {"crowd": name, **size._asdict(), "run": number}
        for name, size in wanted
        for number in range(seeds)
    ]
    journal = out / "independent.jsonl"
    results = run(measure, cases, seed=seed, jobs=jobs, journal=journal, title="Honesty")
    found = {
        place: results[first : first + seeds]
        for place, first in zip(wanted, range(0, len(results), seeds), strict=True)
    }
    rows = {place: row(*place, each) for place, each in found.items()}
    text = f"{calibration_table(rows)}\n\n{majority_table(rows)}"
    return Finding(
        "independent", CrowdMeans._fields, list(rows.values()), text, partial(draw, found)
    )


KindAndSize = tuple[str, Dimensions]


def row(name: str, size: Dimensions, each: Sequence[Result]) -> CrowdMeans:
    """Return the means over the seeds."""
    return CrowdMeans(
        name, *size, *(fmean(one[field] for one in each) for field in CrowdMeans._fields[4:])
    )


def calibration_table(rows: dict[KindAndSize, CrowdMeans]) -> str:
    """ECE where workers are independent, of what is published and of the belief inside."""
    lines = []
    for name, size, most in CALIBRATED:
        of = rows[name, size]
        lines.append(
            (
                name,
                str(size.tasks),
                str(size.labels_per_worker),
                f"{of.error:.3f}",
                f"{of.expected:.3f}",
                f"{of.votes:.1f}",
                f"{of.inside_ece:.3f}",
                f"{of.ece:.3f}",
                f"{most:.2f}",
                f"{of.told_ece:.3f}",
            )
        )
    header = "", "tasks", "labels per worker", "error", "expected", "votes", "ECE inside"
    table = text_table((*header, "published", "promised", f"with {GOLD} gold"), lines)
    return f"Independent workers, {UP_TO} labels per task\n\n{table}"


def worst(rows: Iterable[CrowdMeans], field: str) -> str:
    """By how much this error is at most above the majority's, and at how many labels per task."""
    above, labels = max((getattr(of, field) - of.majority, of.labels_per_task) for of in rows)
    return f"{above:+.3f} at {labels}"


def majority_table(rows: dict[KindAndSize, CrowdMeans]) -> str:
    """Return the errors beside the majority's, where they are farthest above it."""
    lines = []
    for name, each in dict.fromkeys((name, size.labels_per_worker) for name, size in COMPARED):
        places = [
            place for place in COMPARED if (place[0], place[1].labels_per_worker) == (name, each)
        ]
        own = [rows[place] for place in places]
        means = [fmean(getattr(of, field) for of in own) for field in ("majority", "live", "error")]
        lines.append(
            (
                name,
                str(each),
                *(f"{mean:.3f}" for mean in means),
                *(worst(own, field) for field in ("live", "error", "told")),
            )
        )
    header = "", "labels per worker", "majority", "live", "at rest"
    above = "live above majority", "at rest", f"with {GOLD} gold"
    table = text_table((*header, *above), lines)
    return (
        f"Against the majority, at 1 to {UP_TO} labels per task: mean errors, and the largest "
        f"difference (promised: {WORSE})\n\n{table}"
    )


def draw(found: Mapping[KindAndSize, Sequence[Result]], figure: "Figure") -> None:
    """How often predictions of each confidence are right, for crowds of 20 labels per worker."""
    shown = [(name, size) for name, size, _ in CALIBRATED if size.labels_per_worker == 20]
    names = list(dict.fromkeys(name for name, _ in shown))
    for axes, name in zip(grid(figure, len(names)), names, strict=True):
        for number, size in enumerate(size for of, size in shown if of == name):
            reliability(axes, found[name, size], f"C{number}", f"{size.tasks:,} tasks")
        axes.set_title(name, fontsize="medium")
        axes.legend(fontsize="x-small", loc="upper left")
