"""What a stop rule saves: recorded labels in random order, none for closed tasks.

A task is closed when max(p, 1 - p) reaches the confidence, as with `SBIC_STOP_CONFIDENCE`; its
later labels are not used. For comparison, majority vote at the same cost: as many labels, evenly
spread over the tasks.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from math import exp
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from sbic.engine.labels import Estimate, Ints, Labels, Prior, standard_error
from sbic.infer.dawid_skene import majority
from sbic.infer.fast_sbic import FastSBIC, fast_sbic
from sbic.research.outcome import Finding, text_table
from sbic.research.real_crowds import crowd_of_signs, fingerprint
from sbic.research.running import Case, Result, run

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class Saving(NamedTuple):
    """Means over random orders: the labels used, and the errors."""

    confidence: float
    labels: float
    of_labels: int
    error: float
    standard_error: float | None
    error_of_all: float
    majority_error: float
    majority_error_of_all: float
    runs: int


def stopping(
    data: Path,
    name: str,
    out: Path,
    *,
    confidences: Sequence[float],
    runs: int,
    seed: int,
    jobs: int,
) -> Finding:
    """Run the cases that are not yet in the journal, and build the table."""
    total = len(crowd_of_signs(str(data), name).labels)
    files = fingerprint(data, name)
    cases: list[Case] = [
        {"set": name, "files": files, "confidence": confidence, "run": number}
        for confidence in confidences
        for number in range(runs)
    ]
    journal = out / "stopping.jsonl"
    results = run(
        partial(measure, str(data)), cases, seed=seed, jobs=jobs, journal=journal, title="Stopping"
    )
    savings = summary(cases, results, total)
    return Finding(
        f"stopping-{name}",
        Saving._fields,
        savings,
        as_text(name, savings),
        partial(draw, name, savings),
    )


def measure(data: str, case: Case, rng: np.random.Generator) -> Result:
    """Return the labels used and the errors, on one random order."""
    labels, truth = crowd_of_signs(data, str(case["set"]))
    shuffled = labels.in_order(rng.permutation(len(labels)))
    asked, estimate = stopped(shuffled, Prior(), float(case["confidence"]))
    even = shuffled.in_order(evenly(shuffled, len(asked)))
    return {
        "labels": len(asked),
        "error": estimate.error(truth),
        "error_of_all": fast_sbic(shuffled, Prior(), rng).error(truth),
        "majority_error": majority(even, Prior(), rng).error(truth),
        "majority_error_of_all": majority(shuffled, Prior(), rng).error(truth),
    }


def stopped(labels: Labels, prior: Prior, confidence: float) -> tuple[Ints, Estimate]:
    """Run Fast SBIC on the labels whose task is open; returns their indices and the estimate.

    >>> two = Labels.of([("t1", "ann", 1), ("t1", "bob", 1), ("t1", "cy", -1)])
    >>> stopped(two, Prior(), 0.75)[0].tolist()
    [0, 1]
    """
    engine: FastSBIC[int, int] = FastSBIC(prior)
    is_open = [True] * labels.tasks
    asked = []
    triples = zip(labels.task.tolist(), labels.worker.tolist(), labels.label.tolist(), strict=True)
    for place, (task, worker, label) in enumerate(triples):
        if is_open[task]:
            _, log_odds = engine.observe(task, worker, label)
            asked.append(place)
            is_open[task] = 1 / (1 + exp(-abs(log_odds))) < confidence
    log_odds_of_all = np.array([engine.log_odds(task) for task in range(labels.tasks)])
    return np.array(asked, dtype=np.int64), Estimate(log_odds_of_all)


def evenly(labels: Labels, count: int) -> Ints:
    """Return the indices of `count` labels: the first of every task, then the second, ...

    >>> three = Labels.of([("t1", "ann", 1), ("t1", "bob", 1), ("t2", "ann", 1)])
    >>> evenly(three, 2).tolist()
    [0, 2]
    """
    seen = [0] * labels.tasks
    nth = []
    for task in labels.task.tolist():
        nth.append(seen[task])
        seen[task] += 1
    return np.argsort(nth, kind="stable")[:count].astype(np.int64)


def summary(cases: Sequence[Case], results: Sequence[Result], total: int) -> list[Saving]:
    """Return the means at every confidence."""
    by_confidence: dict[float, list[Result]] = {}
    for case, result in zip(cases, results, strict=True):
        by_confidence.setdefault(float(case["confidence"]), []).append(result)
    return [_saving(confidence, each, total) for confidence, each in by_confidence.items()]


def _saving(confidence: float, results: Sequence[Mapping[str, float]], total: int) -> Saving:
    means = {name: fmean(result[name] for result in results) for name in results[0]}
    return Saving(
        confidence=confidence,
        of_labels=total,
        standard_error=standard_error([result["error"] for result in results]),
        runs=len(results),
        **means,
    )


def as_text(name: str, savings: Sequence[Saving]) -> str:
    """Return the table, and the error with all labels."""
    rows = [
        (
            f"{saving.confidence:g}",
            f"{saving.labels:,.0f}",
            f"{1 - saving.labels / saving.of_labels:.1%}",
            f"{saving.error:.4f}",
            f"{saving.majority_error:.4f}",
        )
        for saving in savings
    ]
    first = savings[0]
    rows.append(
        (
            "no rule",
            f"{first.of_labels:,}",
            "0.0%",
            f"{first.error_of_all:.4f}",
            f"{first.majority_error_of_all:.4f}",
        )
    )
    header = ("confidence", "labels", "saved", "error", "majority vote, same cost")
    title = f"What a stop rule saves: {name}, mean over {first.runs} random orders"
    return f"{title}\n\n{text_table(header, rows)}"


def draw(name: str, savings: Sequence[Saving], figure: "Figure") -> None:
    """Draw the error by the number of labels used."""
    axes = figure.subplots()
    ordered = sorted(savings, key=lambda saving: saving.labels)
    last = ordered[-1]
    cost = [saving.labels for saving in ordered] + [last.of_labels]
    error = [saving.error for saving in ordered] + [last.error_of_all]
    theirs = [saving.majority_error for saving in ordered] + [last.majority_error_of_all]
    axes.plot(cost, error, "o-", label="Fast SBIC with the stop rule")
    axes.plot(cost, theirs, "o-", label="majority vote at the same cost")
    for saving in ordered:
        axes.annotate(f"{saving.confidence:g}", (saving.labels, saving.error))
    axes.set_ylim(bottom=0)
    axes.grid(alpha=0.4)
    axes.set_xlabel("labels used; the last point is all of them")
    axes.set_ylabel("share of wrong predictions")
    axes.set_title(f"What a stop rule saves: {name}")
    axes.legend()
