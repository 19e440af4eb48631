"""Writes the estimates of workers as CSV."""

import numpy as np

from pipeline.files.csv_text import csv_bytes
from pipeline.inference.engine.engine import Engine
from pipeline.inference.labels import Labels

COLUMNS = ("worker", "labels", "correct", "accuracy")


def workers_csv(labels: Labels, engine: Engine) -> bytes:
    """A row for each worker in order of first appearance.

    `correct` is how many of their labels are expected to be right. Under settled, `theta` is the
    probability that they know the answer, and `habit:CLASS` how often they give a class otherwise.
    """
    known = engine.workers(np.arange(labels.workers))
    names: tuple[str, ...] = COLUMNS
    columns = [known.given.astype(np.int64), known.right, known.accuracy]
    if known.theta is not None and known.habits is not None:
        names += ("theta", *(f"habit:{name}" for name in labels.classes))
        columns += [known.theta, *known.habits.T[: len(labels.classes)]]
    rows = zip(labels.worker_names, *(column.tolist() for column in columns), strict=True)
    return csv_bytes(names, rows)
