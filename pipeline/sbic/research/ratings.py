"""Crowds that grade: what an order of the classes is worth to `settled`.

On real crowds, with all labels and with a few of each task, and on simulated ones: the share of
tasks whose exact grade is predicted wrongly, the mean distance of the median from the truth, and
how many errors the published probabilities lead one to expect for each that is made.
"""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from sbic.engine.labels import ClassEstimate, Floats, Ints, Labels, Prior
from sbic.engine.ratings import rated
from sbic.files.tables import BadFile
from sbic.infer.registry import ALGORITHMS
from sbic.infer.settled import AT_REST, fitted
from sbic.research.outcome import Finding, text_table
from sbic.research.real_crowds import RealCrowd, fingerprint, names_in, real_crowd
from sbic.research.running import Case, Result, run

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ORDERED, SETTLED = "settled, ordered", "settled"
MODELS = "majority", "dawid-skene", SETTLED, ORDERED
MOST = 0, 1, 2, 3, 4
"""Labels of a task at most; 0: all."""
GRADES = 5
TITLE = "Crowds that grade: settled with and without an order"

# Simulated crowds: how many labels a task has, and how many workers give them.
SIMULATED: dict[str, dict[str, int]] = {
    "3 labels a task, 18 a worker": {"labels_per_task": 3, "workers": 100},
    "5 labels a task, 10 a worker": {"labels_per_task": 5, "workers": 300},
    "5 labels a task, 75 a worker": {"labels_per_task": 5, "workers": 40},
    "12 labels a task, 180 a worker": {"labels_per_task": 12, "workers": 40},
}


def simulated(
    rng: np.random.Generator,
    *,
    tasks: int = 600,
    workers: int = 40,
    labels_per_task: int = 5,
    share_of_spammers: float = 0.1,
) -> RealCrowd:
    """Workers who are too generous or too strict, more or less exact; spammers favour a grade."""
    truth = rng.integers(0, GRADES, tasks)
    bias, spread = rng.normal(0, 0.4, workers), rng.uniform(0.5, 1.4, workers)
    is_spammer = rng.random(workers) < share_of_spammers
    favourite = rng.integers(0, GRADES, workers)
    i = np.repeat(np.arange(tasks), labels_per_task)
    j = np.concatenate([rng.choice(workers, labels_per_task, replace=False) for _ in range(tasks)])
    says = np.rint(truth[i] + rng.normal(bias[j], spread[j])).clip(0, GRADES - 1).astype(np.int64)
    answer = np.where(is_spammer[j] & (rng.random(len(i)) < 0.8), favourite[j], says)
    names = tuple(map(str, range(tasks))), tuple(map(str, range(workers)))
    labels = Labels(i, j, answer, *names, tuple(str(grade + 1) for grade in range(GRADES)))
    return RealCrowd(labels.in_order(rng.permutation(len(i))), truth)


def few_labels(labels: Labels, truth: Ints, most: int, rng: np.random.Generator) -> RealCrowd:
    """Return the same crowd with at most so many labels of each task, drawn at random."""
    order = rng.permutation(len(labels))
    task = labels.task[order]
    by_task = np.argsort(task, kind="stable")
    starts = np.searchsorted(task[by_task], np.arange(labels.tasks))
    place = np.arange(len(task)) - starts[task[by_task]]
    return RealCrowd(labels.in_order(np.sort(order[by_task[place < most]])), truth)


def graded(data: str, name: str) -> RealCrowd:
    """Return a real crowd whose labels are whole numbers."""
    crowd = real_crowd(data, name)
    if not all(grade.isdecimal() for grade in crowd.labels.classes):
        raise BadFile(name, f"has labels that are no grades: {', '.join(crowd.labels.classes[:5])}")
    return crowd


def published_by(model: str, labels: Labels) -> Floats:
    """Return the probabilities of the grades of each task; of majority, shares of the votes."""
    if model in (SETTLED, ORDERED):
        engine = fitted(labels, Prior(), is_ordered=model == ORDERED)
        engine.settle(AT_REST)
        return engine.beliefs(np.arange(labels.tasks))
    estimate = ALGORITHMS[model].load()(labels, Prior(), np.random.default_rng())
    assert isinstance(estimate, ClassEstimate)
    shares: Floats = estimate.score / np.maximum(estimate.score.sum(axis=1)[:, None], 1e-300)
    return shares


def measure(data: str, case: Case, rng: np.random.Generator) -> Result:
    """Compare what a model says of a crowd with the truth."""
    rng = np.random.default_rng(int(case["run"]))  # all models have the same labels
    name, most = str(case["set"]), int(case["most"])
    if name in SIMULATED:
        labels, truth = simulated(rng, **SIMULATED[name])
    else:
        labels, truth = graded(data, name)
        if most:
            labels, truth = few_labels(labels, truth, most, rng)
    p = published_by(str(case["model"]), labels)
    known = (truth >= 0) & (np.bincount(labels.task, minlength=labels.tasks) > 0)
    p, truth = p[known], truth[known]
    error = ClassEstimate(p).error(truth)
    return {
        "error": error,
        "distance": float(np.abs(rated(p).median - truth).mean()),
        "expected": float(1 - p.max(axis=1).mean()),
    }


class RatingCell(NamedTuple):
    """The means of one model on one crowd, over several draws of its labels."""

    crowd: str
    labels_per_task: int
    model: str
    error: float
    distance: float
    expected: float


def ratings(data: Path | None, out: Path, *, draws: int, seed: int, jobs: int) -> Finding:
    """Run the cases that are not yet in the journal, and build the table."""
    cases: list[Case] = [
        {"set": name, "files": "", "model": model, "most": 0, "run": seed + number}
        for name in ([] if data else SIMULATED)
        for model in MODELS
        for number in range(draws)
    ]
    for name in names_in(data) if data else []:
        graded(str(data), name)
        cases += [
            {
                "set": name,
                "files": fingerprint(data, name) if data else "",
                "model": model,
                "most": most,
                "run": seed + number,
            }
            for most in MOST
            for model in MODELS
            for number in range(draws if most else 1)
        ]
    journal = out / "ratings.jsonl"
    work = partial(measure, str(data))
    results = run(work, cases, seed=seed, jobs=jobs, journal=journal, title="Ratings")
    found: dict[tuple[str, int, str], list[Result]] = {}
    for case, result in zip(cases, results, strict=True):
        place = str(case["set"]), int(case["most"]), str(case["model"])
        found.setdefault(place, []).append(result)
    cells = [
        RatingCell(*place, *(fmean(each[name] for each in some) for name in RatingCell._fields[3:]))
        for place, some in found.items()
    ]
    return Finding("ratings", RatingCell._fields, cells, as_text(cells), partial(draw, cells))


def as_text(cells: Sequence[RatingCell]) -> str:
    """Write a row for each crowd, number of labels and model."""
    rows = [
        (
            each.crowd,
            str(each.labels_per_task) if each.labels_per_task else "all",
            each.model,
            f"{each.error:.4f}",
            f"{each.distance:.4f}",
            f"{each.expected / each.error:.2f}" if each.error else "–",
        )
        for each in cells
    ]
    header = ("", "labels a task", "model", "error", "distance", "expected / real")
    return (
        f"{TITLE}\n\n{text_table(header, rows)}\n\nThe error is that of the exact grade, the "
        "distance that of the median from the truth, in grades. A ratio of expected to real error "
        "of 1 is honest; of majority it is that of the shares of the votes."
    )


def draw(cells: Sequence[RatingCell], figure: "Figure") -> None:
    """Draw the error of each model, crowd by crowd."""
    axes = figure.subplots()
    places = list(dict.fromkeys((each.crowd, each.labels_per_task) for each in cells))
    for number, model in enumerate(MODELS):
        errors = [each.error for each in cells if each.model == model]
        axes.bar(np.arange(len(places)) + 0.2 * number, errors, 0.2, label=model)
    names = [f"{crowd}, {most} labels" if most else crowd for crowd, most in places]
    axes.set_xticks(np.arange(len(places)) + 0.3, names, rotation=20, fontsize="small")
    axes.set_ylabel("error of the exact grade")
    axes.set_title(TITLE, fontsize="medium")
    axes.legend()
