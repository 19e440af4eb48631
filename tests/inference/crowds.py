"""Crowds to test with: small ones drawn by hypothesis, larger ones from a seed, the real ones."""

import csv
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import strategies as st

from sbic.engine.labels import Ints, Labels, Prior
from tests.inference.paper import Triple

positive = st.floats(0.05, 20)
priors = st.builds(Prior, positive, positive, st.floats(0.01, 0.99))


def triples(tasks: int, workers: int, most: int) -> st.SearchStrategy[list[Triple]]:
    """Labels of up to this many tasks and workers, in any order, no pair twice."""
    one = st.tuples(
        st.integers(0, tasks - 1), st.integers(0, workers - 1), st.sampled_from([1, -1])
    )
    return st.lists(one, min_size=1, max_size=most, unique_by=lambda triple: triple[:2])


def as_labels(triples: list[Triple]) -> Labels:
    """With the numbers as they are, not renumbered by first appearance."""
    task, worker, label = (np.array(column, np.int64) for column in zip(*triples, strict=True))
    names = [tuple(map(str, range(column.max() + 1))) for column in (task, worker)]
    return Labels(task, worker, (label + 1) // 2, names[0], names[1])


def as_triples(labels: Labels) -> list[Triple]:
    """The labels as the paper's algorithms take them."""
    columns = labels.task.tolist(), labels.worker.tolist(), labels.label.tolist()
    return list(zip(*columns, strict=True))


def random_crowd(
    tasks: int, workers: int, labels_per_worker: int, seed: int, accuracy: float = 0.7
) -> Labels:
    """Workers who each answer random tasks, right with this probability, in random order."""
    rng = np.random.default_rng(seed)
    truth = rng.choice([-1, 1], tasks)
    task = np.concatenate(
        [rng.choice(tasks, labels_per_worker, replace=False) for _ in range(workers)]
    )
    worker = np.repeat(np.arange(workers), labels_per_worker)
    label = np.where(rng.random(len(task)) < accuracy, 1, -1) * truth[task]
    names = tuple(map(str, range(tasks))), tuple(map(str, range(workers)))
    return Labels(task, worker, (label + 1) // 2, *names).in_order(rng.permutation(len(task)))


def real_crowds() -> Path:
    """The folder of the real crowds; the test is skipped without it."""
    folder = os.environ.get("SBIC_DATA")
    if not folder:
        pytest.skip("SBIC_DATA does not name the folder of the real crowds")
    return Path(folder)


def real_crowd(name: str) -> tuple[Labels, Ints]:
    """One of the real crowds and its truth; the test is skipped without them."""
    folder = real_crowds()
    rows = [*read(folder / f"{name}.labels.csv")]
    truth = {row["task"]: row["truth"] for row in read(folder / f"{name}.truth.csv")}
    classes = tuple(sorted({row["label"] for row in rows}))
    labels = Labels.of_answers(
        ((row["task"], row["worker"], classes.index(row["label"])) for row in rows), classes
    )
    return labels, np.array([classes.index(truth[task]) for task in labels.task_names])


def read(path: Path) -> Iterator[dict[str, str]]:
    with path.open() as file:
        yield from csv.DictReader(file)


def crowd_of_classes(
    classes: int,
    tasks: int,
    workers: int,
    labels_per_task: int,
    seed: int,
    habit: Sequence[float] | None = None,
) -> tuple[Labels, Ints]:
    """Workers who know the answer or follow a habit (all the same one, or none), and the truth."""
    rng = np.random.default_rng(seed)
    truth = rng.integers(0, classes, tasks)
    knows = rng.beta(4, 3, workers)
    task = np.repeat(np.arange(tasks), labels_per_task)
    worker = np.concatenate(
        [rng.choice(workers, labels_per_task, replace=False) for _ in range(tasks)]
    )
    guess = rng.choice(classes, len(task), p=habit)
    answer = np.where(rng.random(len(task)) < knows[worker], truth[task], guess)
    names = tuple(map(str, range(tasks))), tuple(map(str, range(workers)))
    labels = Labels(task, worker, answer, *names, tuple(map(str, range(classes))))
    return labels.in_order(rng.permutation(len(task))), truth
