"""Whether a confidence means what it says: on real crowds and juries whose truth is known.

For each crowd and number of gold tasks, drawn at random: the share of wrong predictions among the
other tasks, how many the probabilities lead one to expect, the calibration error (ECE), the
log-loss, the votes that the labels of a task are worth, and what a stop rule at 0.95 would do.
`honest` is the model of `sbic.engine.honest`, `settled` what the stream publishes today.
"""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from sbic.engine import honest
from sbic.engine.engine import Engine
from sbic.engine.labels import Floats, Ints, Labels, Prior, softmax
from sbic.research.outcome import Outcome, text_table
from sbic.research.real_crowds import fingerprint, names_in, real_crowd
from sbic.research.running import Case, Result, run

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MODELS = "settled", "honest"
GOLD = 0, 50, 100, 200
STOP = 0.95
BINS = 10
SWEEPS = 2_000
TITLE = "Expected and real error on real crowds"
UNKNOWN = -1


class Published(NamedTuple):
    """The probabilities of each task, and the votes that its labels are worth."""

    probabilities: Floats
    votes: Floats


def settled(labels: Labels, gold: Ints) -> Published:
    """What the stream publishes."""
    engine = Engine("settled", classes=len(labels.classes))
    engine.take(labels.task, labels.worker, labels.answer)
    for task in np.flatnonzero(gold != UNKNOWN).tolist():
        engine.set_gold(task, int(gold[task]))
    engine.settle(1e-9)
    tasks = np.arange(labels.tasks)
    return Published(engine.beliefs(tasks), engine.label_counts(tasks).astype(np.float64))


def honestly(labels: Labels, gold: Ints) -> Published:
    """What the honest model publishes: discounted by dependence, calibrated by gold."""
    classes = len(labels.classes)
    order = np.lexsort((labels.worker, labels.task))
    task, worker = labels.task[order], labels.worker[order]
    h = honest.empty(task, worker, labels.tasks, labels.workers, classes, Prior())
    honest.take(h, task, np.arange(len(task)), labels.answer[order].astype(np.int64))
    for i in np.flatnonzero(gold != UNKNOWN).tolist():
        honest.describe(h, i, int(gold[i]), np.zeros(classes))
    h = honest.with_copies(h, task)
    for _ in range(SWEEPS):
        if honest.sweep(h) < 1e-9:
            break
    _, rho, votes = honest.depend(h)
    x = honest.discounted(h.score, votes, rho)
    known = np.flatnonzero((gold != UNKNOWN) & (votes > 0))
    scale, shift = honest.calibrated(x[known], gold[known])
    return Published(softmax(scale * x + shift), votes / (1 + np.maximum(votes - 1, 0) * rho))


def calibration_error(confidence: Floats, is_right: Floats) -> float:
    """ECE: how far confidence and accuracy differ, in bins of equal width.

    >>> round(calibration_error(np.array([0.9, 0.9, 0.6]), np.array([1.0, 0.0, 1.0])), 3)
    0.4
    """
    bins = np.minimum((confidence * BINS).astype(np.int64), BINS - 1)
    apart = np.abs(np.bincount(bins, confidence - is_right, BINS))
    return float(apart.sum() / len(confidence))


def measure(data: str, case: Case, rng: np.random.Generator) -> Result:
    """Compare what a model publishes of a crowd, given some gold, with the truth of the others."""
    labels, truth = real_crowd(data, str(case["set"]))
    if labels.are_signs:
        truth = np.where(truth == 0, UNKNOWN, (truth + 1) // 2)
    count = np.bincount(labels.task, minlength=labels.tasks)
    known = np.flatnonzero((truth != UNKNOWN) & (count > 0))
    drawn = rng.permutation(known)[: int(case["gold"])]
    gold = np.full(labels.tasks, UNKNOWN)
    gold[drawn] = truth[drawn]
    published = (settled if case["model"] == "settled" else honestly)(labels, gold)
    rest = np.setdiff1d(known, drawn)
    p, real = published.probabilities[rest], truth[rest]
    confidence, is_right = p.max(axis=1), (p.argmax(axis=1) == real).astype(np.float64)
    stopped = confidence >= STOP
    return {
        "error": float(1 - is_right.mean()),
        "expected": float(1 - confidence.mean()),
        "ece": calibration_error(confidence, is_right),
        "log_loss": float(-np.log(np.maximum(p[np.arange(len(rest)), real], 1e-12)).mean()),
        "votes": float(np.median(published.votes[rest])),
        "stopped": float(stopped.mean()),
        "stopped_wrong": float(1 - is_right[stopped].mean()) if stopped.any() else 0.0,
    }


class Cell(NamedTuple):
    """The means of one model on one crowd with this number of gold tasks, over several draws."""

    crowd: str
    model: str
    gold: int
    error: float
    expected: float
    ece: float
    log_loss: float
    votes: float
    stopped: float
    stopped_wrong: float


def honesty(data: Path, out: Path, *, draws: int, seed: int, jobs: int) -> Outcome:
    """Run the cases that are not yet in the journal, and build the table."""
    cases: list[Case] = [
        {"set": name, "files": fingerprint(data, name), "model": model, "gold": gold, "run": number}
        for name in names_in(data)
        for model in MODELS
        for gold in GOLD
        if 2 * gold < len(real_crowd(str(data), name).truth)
        for number in range(draws if gold else 1)
    ]
    journal = out / "honesty.jsonl"
    results = run(
        partial(measure, str(data)), cases, seed=seed, jobs=jobs, journal=journal, title="Honesty"
    )
    cells = summary(cases, results)
    return Outcome("honesty", Cell._fields, cells, as_text(cells), partial(draw, cells))


def summary(cases: Sequence[Case], results: Sequence[Result]) -> list[Cell]:
    """The means over the draws."""
    found: dict[tuple[str, str, int], list[Result]] = {}
    for case, result in zip(cases, results, strict=True):
        place = str(case["set"]), str(case["model"]), int(case["gold"])
        found.setdefault(place, []).append(result)
    return [
        Cell(*place, *(fmean(result[name] for result in each) for name in Cell._fields[3:]))
        for place, each in found.items()
    ]


def as_text(cells: Sequence[Cell]) -> str:
    """A row for each crowd, model and number of gold tasks."""
    rows = [
        (
            cell.crowd,
            cell.model,
            str(cell.gold),
            f"{cell.error:.3f}",
            f"{cell.expected:.3f}",
            f"{cell.expected / cell.error:.2f}" if cell.error else "–",
            f"{cell.ece:.3f}",
            f"{cell.log_loss:.3f}",
            f"{cell.votes:.1f}",
            f"{cell.stopped:.0%}",
            f"{cell.stopped_wrong:.1%}",
        )
        for cell in cells
    ]
    header = ("", "model", "gold", "error", "expected", "ratio", "ECE", "log-loss", "votes")
    table = text_table((*header, f"stopped at {STOP}", "of them wrong"), rows)
    return (
        f"{TITLE}\n\n{table}\n\nA ratio of expected to real error of 1 is honest. Gold tasks are "
        "drawn at random; all figures are of the other tasks."
    )


def draw(cells: Sequence[Cell], figure: "Figure") -> None:
    """Expected against real error: what lies on the diagonal is honest."""
    axes = figure.subplots()
    most = max(max(cell.error, cell.expected) for cell in cells)
    axes.plot([0, most], [0, most], color="grey", linewidth=1)
    for model in MODELS:
        for gold, marker in zip(GOLD, "os^v", strict=True):
            own = [cell for cell in cells if (cell.model, cell.gold) == (model, gold)]
            if own and (gold == 0 or model == "honest"):
                color = "C3" if model == "settled" else "C0"
                x, y = [cell.error for cell in own], [cell.expected for cell in own]
                axes.plot(x, y, marker, color=color, label=f"{model}, {gold} gold tasks")
    axes.set_xlabel("share of wrong predictions")
    axes.set_ylabel("expected share")
    axes.set_title(TITLE)
    axes.legend()
