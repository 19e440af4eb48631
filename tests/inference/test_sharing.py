"""Engines that share the work come to rest where one does; partitions come and go."""

import numpy as np
import pytest

from sbic.engine import AlgorithmName
from sbic.engine.engine import Engine
from sbic.engine.labels import Ints, Labels
from sbic.engine.taking import REPEATED
from tests.inference.crowds import crowd_of_classes, random_crowd

TASKS, WORKERS = 60, 20


class Shared:
    """Engines of which each has every so-manieth task and worker, and hears of the others'."""

    def __init__(self, count: int, classes: int, tolerance: float) -> None:
        self.engines = [
            Engine("settled", classes=classes, tolerance=tolerance) for _ in range(count)
        ]
        for number, engine in enumerate(self.engines):
            engine.release_tasks([i for i in range(TASKS) if i % count != number])
            engine.release_workers([j for j in range(WORKERS) if j % count != number])

    def take(self, labels: Labels) -> None:
        """Each label to the engine that has its worker and to the one that has its task."""
        for number, engine in enumerate(self.engines):
            count = len(self.engines)
            own = (labels.worker % count == number) | (labels.task % count == number)
            engine.take(labels.task[own], labels.worker[own], labels.answer[own])

    def exchange(self) -> bool:
        """Tell each other everything, and refresh what is due; whether nothing was."""
        sums = [engine.sums for engine in self.engines]
        scores = [engine.scores(np.arange(TASKS)) for engine in self.engines]
        counts = [engine.counts(np.arange(WORKERS)) for engine in self.engines]
        size = len(self.engines)
        for number, engine in enumerate(self.engines):
            for other in set(range(size)) - {number}:
                tasks = np.arange(other, TASKS, size)
                workers = np.arange(other, WORKERS, size)
                engine.receive_tasks(tasks, scores[other][tasks])
                engine.receive_workers(workers, counts[other][workers])
            engine.receive_sums(sums[:number] + sums[number + 1 :])
        for engine in self.engines:
            engine.moved()
            while engine.refresh_due():
                pass
        return not any(len(engine.moved()) for engine in self.engines)

    def beliefs(self) -> np.ndarray:
        every = np.arange(TASKS)
        told = [engine.beliefs(every) for engine in self.engines]
        return np.array([told[i % len(told)][i] for i in every])


def at_rest(labels: Labels, classes: int) -> np.ndarray:
    engine = Engine("settled", classes=classes)
    engine.take(labels.task, labels.worker, labels.answer)
    engine.settle(1e-12)
    return engine.beliefs(np.arange(TASKS))


@pytest.mark.parametrize("classes", [2, 4])
@pytest.mark.parametrize("count", [2, 3])
def test_engines_that_hear_of_each_other_come_to_rest_where_one_does(
    classes: int, count: int
) -> None:
    labels, _ = crowd_of_classes(classes, TASKS, WORKERS, labels_per_task=7, seed=classes)
    shared = Shared(count, classes, tolerance=1e-9)
    for part in np.array_split(np.arange(len(labels)), 5):
        shared.take(labels.in_order(part))
        shared.exchange()
    for _ in range(500):
        if shared.exchange():
            break
    assert shared.beliefs() == pytest.approx(at_rest(labels, classes), abs=1e-6)


def partition(names: Ints, number: int) -> Ints:
    return np.flatnonzero(np.arange(names.max() + 1) % 4 == number)


@pytest.mark.parametrize("algorithm", ["fast-sbic", "settled"])
def test_workers_that_were_given_up_are_taken_on_again(
    algorithm: AlgorithmName,
) -> None:
    labels = random_crowd(tasks=TASKS, workers=WORKERS, labels_per_worker=12, seed=8)
    engine = Engine(algorithm)
    engine.take(labels.task, labels.worker, labels.answer)
    every_worker, every_task = np.arange(WORKERS), np.arange(TASKS)
    counts, beliefs, sums = engine.counts(every_worker), engine.beliefs(every_task), engine.sums
    gone = partition(labels.worker, 1)
    engine.release_workers(gone)
    assert engine.beliefs(every_task) == pytest.approx(beliefs)
    assert engine.sums.given == sums.given - counts[gone, 0].sum()
    engine.acquire_workers(gone)
    own = labels.in_order(np.flatnonzero(np.isin(labels.worker, gone)))
    again = engine.take(own.task, own.worker, own.answer)
    assert set(again.outcomes) == {REPEATED}  # the tasks were here all the time
    assert engine.counts(every_worker) == pytest.approx(counts, abs=1e-9)
    assert engine.sums.right == pytest.approx(sums.right)


@pytest.mark.parametrize("algorithm", ["fast-sbic", "settled"])
def test_tasks_and_workers_that_were_given_up_take_their_labels_along(
    algorithm: AlgorithmName,
) -> None:
    labels = random_crowd(tasks=TASKS, workers=WORKERS, labels_per_worker=12, seed=9)
    engine = Engine(algorithm)
    taken = engine.take(labels.task, labels.worker, labels.answer)
    engine.settle(1e-12)
    known = np.unique(labels.task)
    beliefs, counts = engine.beliefs(known), engine.counts(np.arange(WORKERS))
    tasks, workers = partition(labels.task, 2), partition(labels.worker, 3)
    engine.release_tasks(tasks)
    engine.release_workers(workers)
    gone = np.isin(labels.task, tasks) & np.isin(labels.worker, workers)
    assert gone.any()
    left = [engine.labels(i) for i in range(TASKS)]
    assert left == np.bincount(labels.task[~gone], minlength=TASKS).tolist()
    assert engine.beliefs(known) == pytest.approx(beliefs)

    engine.acquire_tasks(tasks)
    engine.acquire_workers(workers)
    back = labels.in_order(np.flatnonzero(gone))
    votes = taken.votes[gone]
    engine.release_workers(workers)  # their votes are known, and not to be computed anew
    engine.put(back.task, back.worker, back.answer, votes)
    assert [engine.labels(i) for i in range(TASKS)] == np.bincount(labels.task).tolist()
    engine.acquire_workers(workers)
    engine.settle(1e-12)
    assert engine.beliefs(known) == pytest.approx(beliefs, abs=1e-9)
    assert engine.counts(np.arange(WORKERS)) == pytest.approx(counts, abs=1e-9)


def test_what_is_told_of_tasks_and_workers_that_are_here_is_not_believed() -> None:
    engine = Engine("settled")
    engine.take([0, 1], [0, 0], [1, 0])
    beliefs, counts = engine.beliefs([0, 1]), engine.counts([0])
    engine.receive_tasks([0], [[0.0, 9.0]])
    engine.receive_workers([0], [[100.0, 100.0, 50.0, 50.0]])
    assert np.array_equal(engine.beliefs([0, 1]), beliefs)
    assert np.array_equal(engine.counts([0]), counts)
