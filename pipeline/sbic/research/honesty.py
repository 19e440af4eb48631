"""Whether a confidence means what it says: on real crowds and juries whose truth is known.

For each crowd and number of gold tasks, drawn at random: the share of wrong predictions among the
other tasks, how many the probabilities lead one to expect, the calibration error (ECE), the
log-loss, the votes that the labels of a task are worth, and what a stop rule would do. Dawid-Skene,
which knows no gold, is there to compare with `settled` at rest.
In a crowd "with copies" three copies of its weakest worker give the labels of that worker again.

The figure is a reliability diagram: how often predictions of each confidence are right.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial
from math import ceil
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from sbic.engine.copies import COMMON
from sbic.engine.engine import Engine
from sbic.engine.labels import Floats, Ints, Labels, Prior, softmax
from sbic.infer.agreement import BINS, bin_of, calibration_error
from sbic.infer.dawid_skene import dawid_skene
from sbic.infer.settled import AT_REST
from sbic.research.outcome import Finding, text_table
from sbic.research.real_crowds import fingerprint, names_in, real_crowd
from sbic.research.running import Case, Result, run

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

DAWID_SKENE, SETTLED = MODELS = "dawid-skene", "settled"
GOLD = 0, 50, 100, 200
STOPS = 0.9, 0.95
COPIES = 3
WITH_COPIES = " with copies"
TITLE = "Expected and real error on real crowds"
UNKNOWN = -1


# What a model publishes of a crowd.


class Published(NamedTuple):
    """The probabilities of each task, and the votes that its labels are worth."""

    probabilities: Floats
    votes: Floats


def offline(labels: Labels) -> Engine:
    """Return an engine that has taken the labels in their order."""
    engine = Engine("settled", classes=len(labels.classes))
    engine.take(labels.task, labels.worker, labels.answer)
    return engine


def settle(engine: Engine, gold: Ints) -> None:
    """Let the truth of some tasks be known, and come to rest."""
    for i in np.flatnonzero(gold != UNKNOWN).tolist():
        engine.set_gold(i, int(gold[i]))
    engine.settle(AT_REST)


def published(engine: Engine, tasks: int) -> Published:
    """Return what is published of all tasks, of gold what it were if its truth was not known."""
    every = np.arange(tasks)
    return Published(softmax(engine.evidence(every)), engine.effective_votes(every))


def published_by(model: str, labels: Labels, gold: Ints) -> Published:
    """Return what a model publishes of all tasks when the truth of some is known."""
    if model == SETTLED:
        engine = offline(labels)
        settle(engine, gold)
        return published(engine, labels.tasks)
    named = replace(labels, classes=tuple(map(str, range(len(labels.classes)))))
    estimate = dawid_skene(named, Prior(), np.random.default_rng())
    votes = np.bincount(labels.task, minlength=labels.tasks).astype(np.float64)
    return Published(estimate.score, votes)


def with_weakest_copied(labels: Labels, truth: Ints) -> Labels:
    """Add three copies of the worker who is right least often, of those with enough labels."""
    known = truth[labels.task] != UNKNOWN
    given = np.bincount(labels.worker[known], minlength=labels.workers)
    is_right = (labels.answer == truth[labels.task])[known].astype(np.float64)
    right = np.bincount(labels.worker[known], is_right, labels.workers)
    share = np.where(given >= COMMON, right / np.maximum(given, 1), np.inf)
    own = np.flatnonzero(labels.worker == share.argmin())
    more = np.repeat(labels.workers + np.arange(COPIES), len(own))
    return replace(
        labels,
        task=np.concatenate((labels.task, np.tile(labels.task[own], COPIES))),
        worker=np.concatenate((labels.worker, more)),
        answer=np.concatenate((labels.answer, np.tile(labels.answer[own], COPIES))),
        worker_names=(*labels.worker_names, *(f"copy {number}" for number in range(COPIES))),
    )


# How far that is from the truth.


def judged(p: Floats, truth: Ints) -> dict[str, float]:
    """Compare the probabilities of some tasks with their truth."""
    confidence, is_right = p.max(axis=1), (p.argmax(axis=1) == truth).astype(np.float64)
    result = {
        "error": float(1 - is_right.mean()),
        "expected": float(1 - confidence.mean()),
        "ece": calibration_error(confidence, is_right),
        "log_loss": float(-np.log(np.maximum(p[np.arange(len(p)), truth], 1e-12)).mean()),
    }
    for stop in STOPS:
        stopped = confidence >= stop
        result[f"stopped_{stop}"] = float(stopped.mean())
        result[f"wrong_{stop}"] = float((1 - is_right[stopped]).mean()) if stopped.any() else 0.0
    bins = bin_of(confidence)
    for name, values in (("in", np.ones(len(p))), ("sure", confidence), ("right", is_right)):
        for number, total in enumerate(np.bincount(bins, values, BINS)):
            result[f"{name}_{number}"] = float(total)
    return result


def measure(data: str, case: Case, rng: np.random.Generator) -> Result:
    """Compare what a model publishes of a crowd, given some gold, with the truth of the others."""
    labels, truth = real_crowd(data, str(case["set"]))
    count = np.bincount(labels.task, minlength=labels.tasks)
    known = np.flatnonzero((truth != UNKNOWN) & (count > 0))
    drawn = rng.permutation(known)[: int(case["gold"])]
    gold = np.full(labels.tasks, UNKNOWN)
    gold[drawn] = truth[drawn]
    if case["copies"]:
        labels = with_weakest_copied(labels, truth)
    published = published_by(str(case["model"]), labels, gold)
    rest = np.setdiff1d(known, drawn)
    found = judged(published.probabilities[rest], truth[rest])
    return {**found, "votes": float(np.median(published.votes[rest]))}


# The table and the figure.


class HonestyCell(NamedTuple):
    """The means of one model on one crowd with this number of gold tasks, over several draws."""

    crowd: str
    model: str
    gold: int
    error: float
    expected: float
    ece: float
    log_loss: float
    votes: float
    stopped_90: float
    wrong_90: float
    stopped_95: float
    wrong_95: float


Cases = dict[tuple[str, str, int], list[Result]]


def honesty(data: Path, out: Path, *, draws: int, seed: int, jobs: int) -> Finding:
    """Run the cases that are not yet in the journal, and build the table."""
    cases: list[Case] = [
        {
            "set": name,
            "files": fingerprint(data, name),
            "model": model,
            "copies": copies,
            "gold": gold,
            "run": number,
        }
        for name in names_in(data)
        for model in MODELS
        for copies in (0, COPIES)
        for gold in GOLD
        if 2 * gold < len(real_crowd(str(data), name).truth)
        if gold == 0 or (model == SETTLED and not copies)
        for number in range(draws if gold else 1)
    ]
    journal = out / "honesty.jsonl"
    results = run(
        partial(measure, str(data)), cases, seed=seed, jobs=jobs, journal=journal, title="Honesty"
    )
    found: Cases = {}
    for case, result in zip(cases, results, strict=True):
        name = f"{case['set']}{WITH_COPIES if case['copies'] else ''}"
        found.setdefault((name, str(case["model"]), int(case["gold"])), []).append(result)
    cells = [cell(*place, each) for place, each in found.items()]
    return Finding("honesty", HonestyCell._fields, cells, as_text(cells), partial(draw, found))


def cell(crowd: str, model: str, gold: int, each: Sequence[Result]) -> HonestyCell:
    """Return the means over the draws; of stopped tasks those over all that were stopped."""
    names = "error", "expected", "ece", "log_loss", "votes"
    means = [fmean(result[name] for result in each) for name in names]
    for stop in STOPS:
        stopped = [result[f"stopped_{stop}"] for result in each]
        wrong = sum(result[f"stopped_{stop}"] * result[f"wrong_{stop}"] for result in each)
        means += [fmean(stopped), wrong / sum(stopped) if sum(stopped) else 0.0]
    return HonestyCell(crowd, model, gold, *means)


def as_text(cells: Sequence[HonestyCell]) -> str:
    """Return a row for each crowd, model and number of gold tasks."""
    rows = [
        (
            each.crowd,
            each.model,
            str(each.gold),
            f"{each.error:.3f}",
            f"{each.expected:.3f}",
            f"{each.expected / each.error:.2f}" if each.error else "–",
            f"{each.ece:.3f}",
            f"{each.log_loss:.3f}",
            f"{each.votes:.1f}",
            f"{each.stopped_90:.0%}",
            f"{each.wrong_90:.1%}",
            f"{each.stopped_95:.0%}",
            f"{each.wrong_95:.1%}",
        )
        for each in cells
    ]
    header = ["", "model", "gold", "error", "expected", "ratio", "ECE", "log-loss", "votes"]
    for stop in STOPS:
        header += [f"stopped at {stop}", "wrong"]
    return (
        f"{TITLE}\n\n{text_table(header, rows)}\n\nA ratio of expected to real error of 1 is "
        "honest. Gold tasks are drawn at random; all figures are of the other tasks. Votes are "
        "what the labels of a task are worth, the median. Copies are three of the weakest worker."
    )


SHOWN = (
    (DAWID_SKENE, 0, "C3", "Dawid-Skene"),
    (SETTLED, 0, "C0", "settled, no gold"),
    (SETTLED, 100, "C2", "settled, 100 gold tasks"),
)


def draw(found: Cases, figure: "Figure") -> None:
    """How often predictions of each confidence are right, for each crowd."""
    crowds = [name for name in dict.fromkeys(key[0] for key in found) if WITH_COPIES not in name]
    for axes, crowd in zip(grid(figure, len(crowds)), crowds, strict=True):
        for model, gold, color, label in SHOWN:
            # of a small crowd 100 tasks may be too many
            most = max(key[2] for key in found if key[:2] == (crowd, model))
            results = found[crowd, model, min(gold, most)]
            reliability(axes, results, color, label if gold <= most else f"settled, {most} gold")
        axes.set_title(crowd, fontsize="medium")
        axes.legend(fontsize="x-small", loc="upper left")


def grid(figure: "Figure", many: int) -> Iterable["Axes"]:
    """Axes for this many diagrams, at most three in a row."""
    rows, columns = ceil(many / 3), min(many, 3)
    figure.set_size_inches(2.8 * columns, 2.8 * rows)
    every = figure.subplots(rows, columns, sharex=True, sharey=True, squeeze=False).flat
    for axes in every[many:]:
        axes.set_visible(False)
    figure.supxlabel("confidence", fontsize="medium")
    figure.supylabel("share of right predictions", fontsize="medium")
    return list(every[:many])


def reliability(axes: "Axes", results: Sequence[Result], color: str, label: str) -> None:
    """Draw a dot for each bin of confidence, larger where it has more of the tasks."""
    totals = {
        name: np.array(
            [sum(each[f"{name}_{number}"] for each in results) for number in range(BINS)]
        )
        for name in ("in", "sure", "right")
    }
    some = totals["in"] > 0.002 * totals["in"].sum()
    x, y = totals["sure"][some] / totals["in"][some], totals["right"][some] / totals["in"][some]
    axes.plot([0, 1], [0, 1], color="grey", linewidth=0.8)
    axes.plot(x, y, color=color, linewidth=1, label=label)
    axes.scatter(x, y, 4 + 120 * totals["in"][some] / totals["in"].sum(), color=color, alpha=0.6)
    axes.set_xlim(0.2, 1.02)
    axes.set_ylim(0, 1.02)
    axes.grid(alpha=0.3)
