"""Files of labels (`task,worker,label`) and of truths (`task,truth`)."""

from collections.abc import Iterator

import numpy as np

from pipeline.files.errors import BadFile
from pipeline.files.source import Source, read_source
from pipeline.files.table import read_table
from pipeline.inference.labels import Ints, Labels

ANSWERS = {"1": 1, "-1": -1, "0": 0}


def read_labels(path: str) -> Labels:
    """The labels of a file; `-` is standard input."""
    source = read_source(path)
    labels = Labels.of(triples(source))
    if labels.tasks == 0:
        raise BadFile(source.name, "has no labels: nothing follows the header")
    return labels


def triples(source: Source) -> Iterator[tuple[str, str, int]]:
    """Task, worker and label of every row."""
    for line, (task, worker, label) in read_table(source, ("task", "worker", "label")):
        if not task or task.isspace():
            raise BadFile(source.name, "the task is empty", line)
        if not worker or worker.isspace():
            raise BadFile(source.name, "the worker is empty", line)
        answer = ANSWERS.get(label)
        if answer is None and (answer := ANSWERS.get(label.strip())) is None:
            problem = f"a label is 1, -1, or 0 for a skip, not '{shortened(label)}'"
            raise BadFile(source.name, problem, line)
        yield task, worker, answer


def read_truth(path: str) -> dict[str, int]:
    """The truth of each task in a file: 1, -1, or 0 where it is not known."""
    source = read_source(path)
    truth: dict[str, int] = {}
    for line, (task, value) in read_table(source, ("task", "truth")):
        answer = ANSWERS.get(value.strip())
        if answer is None:
            problem = f"a truth is 1, -1, or 0 if unknown, not '{shortened(value)}'"
            raise BadFile(source.name, problem, line)
        if truth.setdefault(task, answer) != answer:
            problem = f"the task '{shortened(task)}' had another truth before"
            raise BadFile(source.name, problem, line)
    return truth


def truth_of(labels: Labels, truth: dict[str, int]) -> Ints:
    """The truth of each task of these labels, 0 where it is not known."""
    return np.array([truth.get(name, 0) for name in labels.task_names], dtype=np.int64)


def shortened(field: str) -> str:
    """A field as it fits into a message of one line.

    >>> shortened("x" * 50)
    'xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx...'
    """
    line = " ".join(field.split())
    return line if len(line) <= 40 else f"{line[:40]}..."
