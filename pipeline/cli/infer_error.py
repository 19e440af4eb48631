"""The error of `sbic infer` on known truths; imported only when the command runs."""

from collections.abc import Iterator
from statistics import fmean
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pipeline.cli.infer_run import Run, fitted
from pipeline.files.errors import BadFile
from pipeline.files.reading import Reading
from pipeline.files.truth import read_truth, truth_of
from pipeline.inference.algorithm import AnyEstimate, Prior
from pipeline.inference.evaluation import shuffled_error, standard_error
from pipeline.inference.labels import Ints, Labels
from pipeline.progress import progress


class Truth(NamedTuple):
    """The truth of each task, whether it is known, and how many other tasks the file has."""

    of_tasks: Ints
    is_known: NDArray[np.bool_]
    without_labels: int


def known_truth(labels: Labels, path: str, reading: Reading) -> Truth:
    """The truths in a file, of the tasks that have labels."""
    truth = read_truth(path, labels.classes, reading)
    of_tasks = truth_of(labels, truth)
    is_known = of_tasks != 0 if labels.are_signs else of_tasks >= 0
    if not is_known.any():
        raise BadFile(path, "has the truth of none of the tasks that have labels")
    return Truth(of_tasks, is_known, len(truth.keys() - set(labels.task_names)))


def notes_on_error(estimate: AnyEstimate, truth: Truth, labels: Labels) -> Iterator[str]:
    """Yield the error, and how many tasks it leaves out."""
    known = int(truth.is_known.sum())
    if known < labels.tasks:
        yield f"tasks without a truth, not in the error: {labels.tasks - known}"
    if truth.without_labels:
        yield f"truths of tasks without labels, not in the error: {truth.without_labels}"
    if never_given := int((truth.of_tasks >= len(labels.classes)).sum()):
        yield f"truths that no label has, all in the error: {never_given}"
    yield f"error: {estimate.error(truth.of_tasks):.4f} (tasks: {known})"


def shuffles_note(run: Run, labels: Labels, truth: Ints, shuffles: int) -> str:
    """The mean error over random orders, each with a separate random generator."""

    def algorithm(labels: Labels, prior: Prior, rng: np.random.Generator) -> "AnyEstimate":
        return fitted(run, labels, rng).estimate

    errors = []
    with progress("Shuffles", total=shuffles) as advance:
        for child in np.random.SeedSequence(run.seed).spawn(shuffles):
            rng = np.random.default_rng(child)
            errors.append(shuffled_error(algorithm, labels, run.prior, truth, rng))
            advance()
    spread = standard_error(errors)
    tail = "" if spread is None else f", standard error {spread:.4f}"
    return f"error over random orders: mean {fmean(errors):.4f}{tail} (orders: {shuffles})"
