"""What a report on judges is made of: labels, what is believed of their tasks, and known truths."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from sbic.engine.engine import Engine
from sbic.engine.labels import Floats, Ints, Labels, Prior, softmax
from sbic.engine.outside import Moments
from sbic.infer import settled
from sbic.infer.intervals import accuracy_intervals, contradicts

UNKNOWN = -1


class JudgeFacts(NamedTuple):
    """What is known of a judge besides the labels.

    `accuracy`, its 95 % `interval` and `confusion` are estimated from all labels, if they are yet;
    `drifting` is since when the judge answers otherwise than before, in milliseconds; `price` is
    that of a label.
    """

    worker: str
    accuracy: float | None = None
    interval: tuple[float, float] = (0.0, 1.0)
    confusion: list[list[float]] | None = None
    skips: int = 0
    drifting: int | None = None
    contradicted: bool = False
    name: str | None = None
    price: float | None = None


@dataclass(frozen=True)
class JuryEvidence:
    """The labels that stand, what is published of each task, and the truth as far as it is known.

    `tasks`, `judges` and `answers` are columns of labels, in numbers. `beliefs` has a row for each
    task: of a gold one what would be believed if its truth were not known. `golds` are classes or
    -1. `free` is what labels alone say of gold tasks: how many of them they predict wrongly, and
    how many they expect to. `shares` has the moments of the share of each class.
    """

    classes: tuple[str, ...]
    task_names: Sequence[str]
    tasks: Ints
    judges: Ints
    answers: Ints
    facts: Sequence[JudgeFacts]
    beliefs: Floats
    golds: Ints
    votes: Floats | None = None
    dependence: float | None = None
    free: tuple[int, float] | None = None
    shares: Moments | None = None


def settled_evidence(labels: Labels, golds: Ints, skips: Sequence[int]) -> JuryEvidence:
    """Return the evidence of a file, under settled at rest; `golds` are known classes or -1.

    >>> labels = Labels.of([("t1", "ann", 1), ("t1", "bob", 1), ("t2", "ann", -1)])
    >>> found = settled_evidence(labels, np.array([1, -1]), [0, 2])
    >>> found.beliefs.shape, found.facts[1].worker, found.facts[1].skips, found.free[0]
    ((2, 2), 'bob', 2, 0)
    """
    engine = settled.fitted(labels, Prior())
    engine.make_room(labels.tasks, labels.workers)  # some may have skips only
    for i in np.flatnonzero(golds != UNKNOWN).tolist():
        engine.set_gold(i, int(golds[i]))
    engine.settle(settled.AT_REST)
    every = np.arange(labels.tasks)
    counts = engine.label_counts(every)
    checked = every[(golds != UNKNOWN) & (counts > 0)]
    alone = engine.free_beliefs(checked)
    wrong = int((alone.argmax(axis=1) != golds[checked]).sum())
    return JuryEvidence(
        labels.classes,
        labels.task_names,
        labels.task,
        labels.worker,
        labels.answer,
        _facts(engine, labels, skips),
        softmax(engine.evidence(every)),
        golds,
        engine.effective_votes(every),
        engine.outside.dependence,
        (wrong, float((1 - alone.max(axis=1)).sum())),
        engine.shares(every),
    )


def _facts(engine: Engine, labels: Labels, skips: Sequence[int]) -> list[JudgeFacts]:
    every = np.arange(labels.workers)
    known, (gold, right) = engine.workers(every), engine.on_gold(every).T
    low, high = accuracy_intervals(known.given, known.accuracy, engine.prior_labels)
    against = contradicts(low, high, right, gold).tolist()
    rows = known.confusion.tolist() if known.confusion is not None else [None] * labels.workers
    accuracies, ends = known.accuracy.tolist(), zip(low.tolist(), high.tolist(), strict=True)
    columns = zip(labels.worker_names, accuracies, ends, rows, skips, against, strict=True)
    return [
        JudgeFacts(name, accuracy, both, confusion, skipped, contradicted=is_against)
        for name, accuracy, both, confusion, skipped, is_against in columns
    ]
