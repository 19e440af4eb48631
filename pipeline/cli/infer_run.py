"""Runs one algorithm of `sbic infer` on labels; imported only when the command runs."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from pipeline.files.errors import shortened
from pipeline.inference import fast_sbic, settled
from pipeline.inference.algorithm import AnyEstimate, Prior
from pipeline.inference.engine.engine import Engine
from pipeline.inference.engine.storage import ClassPrior
from pipeline.inference.labels import Labels
from pipeline.inference.registry import ALGORITHMS


class Run(NamedTuple):
    """An algorithm and its parameters."""

    algorithm: str
    prior: Prior
    class_prior: ClassPrior | None
    settles: bool
    seed: int


class Fit(NamedTuple):
    """The estimate of an algorithm, its engine if it has one, and notes for the user."""

    estimate: AnyEstimate
    engine: Engine | None = None
    notes: tuple[str, ...] = ()


def fitted(run: Run, labels: Labels, rng: np.random.Generator) -> Fit:
    """Run the algorithm on the labels in their order."""
    entry = ALGORITHMS[run.algorithm]
    if entry.settles:
        engine = settled.fitted(labels, run.prior, run.class_prior or "learned")
        sweeps = engine.settle(settled.AT_REST).sweeps if run.settles else 0
        note = f"at rest after {sweeps} {'sweep' if sweeps == 1 else 'sweeps'}"
        return Fit(settled.estimate_of(engine, labels), engine, (note,) if run.settles else ())
    if entry.streams:
        engine = fast_sbic.fitted(labels, run.prior)
        return Fit(fast_sbic.estimate_of(engine, labels), engine)
    return Fit(entry.load()(labels, run.prior, rng))


def notes_on_labels(labels: Labels, algorithm: str) -> Iterator[str]:
    """Yield notes on the classes, and on labels that are not counted."""
    if not labels.are_signs:
        yield f"classes: {listed(labels.classes)} (algorithm: {algorithm})"
    if labels.repeats:
        yield f"repeats not counted (a worker's first label for a task counts): {labels.repeats}"
    if labels.skips:
        yield f"skips: {labels.skips}"


def listed(classes: tuple[str, ...]) -> str:
    """The first classes, and how many more there are."""
    more = f" and {len(classes) - 10} more" if len(classes) > 10 else ""
    return ", ".join(map(shortened, classes[:10])) + more
