"""Engines that share the work come to rest where one does; partitions come and go."""

from dataclasses import replace

import numpy as np
import pytest

from sbic.engine import RETRACT, AlgorithmName
from sbic.engine.copies import COMMON
from sbic.engine.engine import Engine
from sbic.engine.labels import Ints, Labels
from sbic.engine.taking import REPEATED
from tests.inference.crowds import crowd_of_classes, random_crowd

TASKS, WORKERS = 60, 20


class Shared:
    """Engines of which each has every so-manieth task and worker, and hears of the others'."""

    def __init__(
        self,
        count: int,
        classes: int,
        tolerance: float,
        common: int = COMMON,
        *,
        is_ordered: bool = False,
    ) -> None:
        self.engines = [
            Engine(
                "settled",
                classes=classes,
                tolerance=tolerance,
                common=common,
                is_ordered=is_ordered,
            )
            for _ in range(count)
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
        scores = [engine.inner_scores(np.arange(TASKS)) for engine in self.engines]
        votes = [engine.votes(np.arange(TASKS)) for engine in self.engines]
        golds = [engine.golds(np.arange(TASKS)) for engine in self.engines]
        counts = [engine.counts(np.arange(WORKERS)) for engine in self.engines]
        pairs = [engine.tally.take() for engine in self.engines]
        size = len(self.engines)
        for number, engine in enumerate(self.engines):
            for other in set(range(size)) - {number}:
                tasks = np.arange(other, TASKS, size)
                workers = np.arange(other, WORKERS, size)
                places, who, shares = self.engines[other].shares_of(tasks)
                engine.receive_shares(tasks[places], who, shares)
                some = (column[other][tasks] for column in (scores, golds, votes))
                engine.receive_tasks(tasks, *some)
                engine.receive_workers(workers, counts[other][workers])
            engine.receive_sums(sums[:number] + sums[number + 1 :])
            engine.receive_pairs(pairs[:number] + pairs[number + 1 :], 1 / size)
        for engine in self.engines:
            engine.moved()
            while engine.refresh_due():
                pass
        moved = [len(engine.moved()) > 0 or engine.tally.has_news for engine in self.engines]
        return not any(moved)

    def beliefs(self) -> np.ndarray:
        every = np.arange(TASKS)
        told = [engine.beliefs(every) for engine in self.engines]
        return np.array([told[i % len(told)][i] for i in every])


def at_rest(
    labels: Labels, classes: int, common: int = COMMON, *, is_ordered: bool = False
) -> np.ndarray:
    engine = Engine("settled", classes=classes, common=common, is_ordered=is_ordered)
    engine.take(labels.task, labels.worker, labels.answer)
    engine.settle(1e-12)
    return engine.beliefs(np.arange(TASKS))


@pytest.mark.parametrize(("classes", "is_ordered"), [(2, False), (4, False), (4, True)])
@pytest.mark.parametrize("count", [2, 3])
def test_engines_that_hear_of_each_other_come_to_rest_where_one_does(
    classes: int, count: int, is_ordered: bool
) -> None:
    labels, _ = crowd_of_classes(classes, TASKS, WORKERS, labels_per_task=7, seed=classes)
    shared = Shared(count, classes, tolerance=1e-9, is_ordered=is_ordered)
    for part in np.array_split(np.arange(len(labels)), 5):
        shared.take(labels.in_order(part))
        shared.exchange()
    for _ in range(500):
        if shared.exchange():
            break
    expected = at_rest(labels, classes, is_ordered=is_ordered)
    assert shared.beliefs() == pytest.approx(expected, abs=1e-6)


def with_copies(labels: Labels, classes: int, seed: int) -> Labels:
    """The labels, of which three workers repeat most of another's, and one nearly so."""
    rng = np.random.default_rng(seed)
    given = {
        (i, j): x
        for i, j, x in zip(
            labels.task.tolist(), labels.worker.tolist(), labels.answer.tolist(), strict=True
        )
        if j not in (16, 17, 18, 19)
    }
    for copy, of, other in (16, 0, 0.0), (17, 0, 0.02), (18, 3, 0.0), (19, 5, 0.15):
        for i in range(TASKS):
            if (i, of) in given and rng.random() < 0.95:
                differs = rng.random() < other
                given[i, copy] = int(rng.integers(classes)) if differs else given[i, of]
    keys = list(given)
    order = rng.permutation(len(keys))
    task, worker = np.array(keys).T
    answer = np.array(list(given.values()))
    columns = np.ascontiguousarray(task[order]), np.ascontiguousarray(worker[order]), answer[order]
    return replace(labels, task=columns[0], worker=columns[1], answer=columns[2])


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(("count", "classes"), [(1, 2), (2, 2), (3, 3), (5, 3)])
def test_copies_share_a_vote_wherever_their_labels_are_counted(
    count: int, classes: int, seed: int
) -> None:
    labels, _ = crowd_of_classes(classes, TASKS, WORKERS, labels_per_task=11, seed=seed)
    labels = with_copies(labels, classes, seed)
    shared = Shared(count, classes, tolerance=1e-9, common=12)
    for part in np.array_split(np.arange(len(labels)), 4):
        shared.take(labels.in_order(part))
        shared.exchange()
    for _ in range(500):
        if shared.exchange():
            break
    assert shared.beliefs() == pytest.approx(at_rest(labels, classes, common=12), abs=1e-6)
    found = {(int(j), int(k)) for j, k in zip(*shared.engines[0].tally.copies[:2], strict=True)}
    assert {(0, 16), (16, 0), (3, 18)} <= found
    assert (5, 19) not in found
    check_errors(shared, labels)
    for number in (16, 17, 18):  # take the copies' labels back: nothing of the sharing is left
        gone = labels.in_order(np.flatnonzero(labels.worker == number))
        for of, engine in enumerate(shared.engines):
            own = (gone.worker % count == of) | (gone.task % count == of)
            engine.take(gone.task[own], gone.worker[own], np.full(own.sum(), RETRACT))
    while not shared.exchange():
        pass
    left = labels.in_order(np.flatnonzero(~np.isin(labels.worker, (16, 17, 18))))
    assert shared.beliefs() == pytest.approx(at_rest(left, classes, common=12), abs=1e-6)


def check_errors(shared: Shared, labels: Labels) -> None:
    """Check the errors of a pair against all labels, with beliefs at rest."""
    for engine in shared.engines:
        engine.tally.is_asked = True
    while not shared.exchange():
        pass
    answers = {
        (i, j): x
        for i, j, x in zip(
            labels.task.tolist(), labels.worker.tolist(), labels.answer.tolist(), strict=True
        )
    }
    inner = [engine.inner_beliefs(np.arange(TASKS)) for engine in shared.engines]
    alike = either = 0.0
    for i in range(TASKS):
        belief, contested = inner[i % len(inner)][i], {x for (t, _), x in answers.items() if t == i}
        if (i, 0) in answers and (i, 17) in answers and len(contested) > 1:
            one, other = answers[i, 0], answers[i, 17]
            alike += (one == other) * (1 - belief[one])
            either += 1 - belief[one] if one == other else 1
    known = shared.engines[-1].tally.known
    [place] = np.flatnonzero((known.first == 0) & (known.second == 17))
    assert known.alike[place] == pytest.approx(alike, abs=1e-4)
    assert known.either[place] == pytest.approx(either, abs=1e-4)


def test_so_many_pairs_are_named_at_most_and_copies_come_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("sbic.engine.copies.MOST_PAIRS", 8)
    labels, _ = crowd_of_classes(2, TASKS, WORKERS, labels_per_task=11, seed=1)
    labels = with_copies(labels, 2, seed=1)
    engine = Engine("settled", common=12)
    engine.take(labels.task, labels.worker, labels.answer)
    found = engine.find_copies()
    assert len(engine.tally.own.first) == 8
    assert {(0, 16), (3, 18)} <= set(zip(found.first.tolist(), found.second.tolist(), strict=True))


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
    given = np.bincount(labels.worker, minlength=WORKERS)[gone].sum()
    assert engine.sums.numbers[0] == sums.numbers[0] - given
    engine.acquire_workers(gone)
    own = labels.in_order(np.flatnonzero(np.isin(labels.worker, gone)))
    again = engine.take(own.task, own.worker, own.answer)
    assert set(again.outcomes) == {REPEATED}  # the tasks were here all the time
    assert engine.counts(every_worker) == pytest.approx(counts, abs=1e-9)
    assert engine.sums.numbers[1] == pytest.approx(sums.numbers[1])


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
