"""Settled equals its equations, as labels arrive and at rest, and the order leaves no trace."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sbic.engine import AlgorithmName
from sbic.engine.engine import ClassPrior, Engine
from sbic.engine.labels import AnyEstimate, Labels, Prior
from sbic.engine.taking import RETRACT
from sbic.infer.settled import Settled, settled, settled_live
from tests.examples import examples
from tests.inference.crowds import crowd_of_classes, real_crowd
from tests.inference.settled_transcription import Transcription

RNG = np.random.default_rng()
TWO = [
    *((0, "a", 1, 0.625), (0, "b", 1, 0.776091), (0, "c", 0, 0.631895)),
    *((1, "a", 0, 0.401662), (1, "b", 0, 0.287178), (2, "a", 1, 0.627741)),
    *((2, "c", 0, 0.545521), (1, "c", 1, 0.374723), (2, "b", 1, 0.629473)),
]
TWO_AT_REST = [0.670411, 0.320482, 0.670411]
THREE = [
    (0, "a", 2, (0.208333, 0.208333, 0.583333)),
    (0, "b", 2, (0.071087, 0.071087, 0.857826)),
    (0, "c", 0, (0.208564, 0.060950, 0.730486)),
    (1, "a", 1, (0.200429, 0.596054, 0.203517)),
    (1, "b", 1, (0.072359, 0.854157, 0.073484)),
    (1, "c", 0, (0.158126, 0.774900, 0.066974)),
    (2, "c", 0, (0.467342, 0.266477, 0.266180)),
    (2, "a", 0, (0.750765, 0.124688, 0.124548)),
]
THREE_AT_REST = [
    *((0.103403, 0.034474, 0.862123), (0.103403, 0.862123, 0.034474)),
    (0.856856, 0.071572, 0.071572),
]


def test_the_test_vectors_of_two_classes() -> None:
    crowd = Settled[int, str, int](classes=(0, 1))
    for task, worker, label, expected in TWO:
        assert crowd.observe(task, worker, label)[1] == pytest.approx(expected, abs=1e-6)
    crowd.settle()
    at_rest = [crowd.probabilities(task)[1] for task in range(3)]
    assert at_rest == pytest.approx(TWO_AT_REST, abs=1e-6)


def test_the_test_vectors_of_three_classes() -> None:
    crowd = Settled[int, str, int](classes=(0, 1, 2))
    for task, worker, label, expected in THREE:
        got = tuple(crowd.observe(task, worker, label).values())
        assert got == pytest.approx(expected, abs=1e-6)
    crowd.settle()
    for task, expected in enumerate(THREE_AT_REST):
        assert tuple(crowd.probabilities(task).values()) == pytest.approx(expected, abs=1e-6)


TASKS, WORKERS = 6, 5
operations = st.lists(
    st.tuples(
        st.sampled_from(["label"] * 6 + ["retract", "gold", "prior"]),
        st.integers(0, TASKS - 1),
        st.integers(0, WORKERS - 1),
        st.integers(0, 5),
        st.lists(st.floats(0.05, 1), min_size=6, max_size=6),
    ),
    min_size=1,
    max_size=60,
)


@given(st.integers(2, 6), operations, st.sampled_from(["learned", "uniform", "given"]))
@examples(150)
def test_the_engine_equals_the_equations_whatever_happens(
    classes: int, operations: list[tuple[str, int, int, int, list[float]]], kind: str
) -> None:
    given_prior = np.arange(1, classes + 1) / np.arange(1, classes + 1).sum()
    fixed = {"learned": None, "uniform": [1 / classes] * classes, "given": given_prior.tolist()}
    class_prior: ClassPrior = given_prior.tolist() if kind == "given" else kind  # type: ignore[assignment]
    engine = Engine("settled", classes=classes, prior=Prior(3, 1.5), class_prior=class_prior)
    by_hand = Transcription(classes, 3, 1.5, fixed[kind])
    for verb, i, j, number, weights in operations:
        x = number % classes
        known = by_hand.labels.get(i, {})
        if verb == "gold":
            gold = None if number % 2 else x
            engine.set_gold(i, gold)
            by_hand.set_gold(i, gold)
        elif verb == "prior":
            prior = np.array(weights[:classes]) / sum(weights[:classes])
            engine.set_prior(i, None if number % 2 else prior.tolist())
            by_hand.set_prior(i, None if number % 2 else prior.tolist())
        elif verb == "retract":
            if j in known:
                by_hand.retract(i, j)
            engine.take([i], [j], [RETRACT])
        else:
            engine.take([i], [j], [x], replaces=True)
            if j not in known:
                by_hand.observe(i, j, x)
            elif known[j] != x:
                by_hand.replace(i, j, x)
        compare(engine, by_hand)
    if any(by_hand.labels.values()):
        engine.settle(1e-11)
        by_hand.settle(1e-11)
        compare(engine, by_hand)
        assert not engine.refresh_due(10**6)
        compare(engine, by_hand)


def compare(engine: Engine, by_hand: Transcription) -> None:
    tasks = [i for i, labels in by_hand.labels.items() if labels]
    for i in tasks:
        assert engine.beliefs([i])[0] == pytest.approx(by_hand.belief[i], abs=1e-9)
        assert engine.labels(i) == len(by_hand.labels[i])
    for j, n in by_hand.n.items():
        counts = [n, by_hand.a[j], *by_hand.said[j]]
        assert engine.counts([j])[0] == pytest.approx(counts, abs=1e-9)
    free = [i for i in tasks if i not in by_hand.gold and i not in by_hand.prior]
    given, right, count, rho = engine.sums
    assert (given, count) == (by_hand.all_n, len(free))
    assert right == pytest.approx(by_hand.all_a, abs=1e-9)
    assert rho == pytest.approx(sum(np.array(by_hand.belief[i]) for i in free), abs=1e-9)


@pytest.mark.parametrize("classes", [2, 5])
def test_in_batches_the_labels_count_as_one_by_one(classes: int) -> None:
    labels, _ = crowd_of_classes(classes, tasks=40, workers=15, labels_per_task=12, seed=classes)
    engine, by_hand = Engine("settled", classes=classes), Transcription(classes)
    engine.take(labels.task, labels.worker, labels.answer)
    for i, j, x in zip(labels.task, labels.worker, labels.answer, strict=True):
        by_hand.observe(int(i), int(j), int(x))
    compare(engine, by_hand)


def probabilities(estimate: AnyEstimate) -> np.ndarray:
    p = getattr(estimate, "probability", None)
    return estimate.score if p is None else p


@pytest.mark.parametrize(
    ("name", "error"),
    [
        *(("birds", 0.1389), ("ducks", 0.4), ("rte", 0.0725), ("temp", 0.0563)),
        *(("dog", 0.1660), ("face", 0.3527)),
    ],
)
def test_the_error_on_real_crowds_in_any_order(name: str, error: float) -> None:
    labels, truth = real_crowd(name)
    first = settled(labels, Prior(), RNG)
    assert first.error(truth) == pytest.approx(error, abs=5e-5)
    shuffled = labels.in_order(np.random.default_rng(3).permutation(len(labels)))
    second = settled(shuffled, Prior(), RNG)
    assert second.error(truth) == pytest.approx(error, abs=5e-5)
    assert probabilities(second) == pytest.approx(probabilities(first), abs=1e-6)
    live = settled_live(shuffled, Prior(), RNG)
    assert np.abs(probabilities(live) - probabilities(first)).max() > 1e-3


def test_a_label_taken_back_leaves_no_trace_at_rest() -> None:
    labels, _ = crowd_of_classes(3, tasks=30, workers=10, labels_per_task=6, seed=4)
    stands = np.arange(len(labels)) % 7 != 3
    kept, all_labels = Engine("settled", classes=3), Engine("settled", classes=3)
    some = labels.in_order(np.flatnonzero(stands))
    gone = labels.in_order(np.flatnonzero(~stands))
    kept.take(some.task, some.worker, some.answer)
    all_labels.take(labels.task, labels.worker, labels.answer)
    all_labels.take(gone.task, gone.worker, np.full(len(gone), RETRACT))
    for engine in (kept, all_labels):
        engine.settle(1e-12)
    every = np.arange(labels.tasks)
    assert all_labels.beliefs(every) == pytest.approx(kept.beliefs(every), abs=1e-9)


def test_refreshing_what_is_due_comes_to_rest_where_settle_does() -> None:
    labels, _ = crowd_of_classes(4, tasks=200, workers=30, labels_per_task=8, seed=5)
    swept = Engine("settled", classes=4)
    due = Engine("settled", classes=4, tolerance=1e-8)
    swept.take(labels.task, labels.worker, labels.answer)
    swept.settle(1e-12)
    for part in np.array_split(np.arange(len(labels)), 10):
        some = labels.in_order(part)
        due.take(some.task, some.worker, some.answer)
        due.refresh_due(500)
        assert not due.is_at_rest
    while not due.is_at_rest:
        due.refresh_due(1000)
    assert not due.refresh_due(1)
    assert due.due == 0
    every = np.arange(labels.tasks)
    assert due.beliefs(every) == pytest.approx(swept.beliefs(every), abs=1e-5)


def test_a_task_of_many_workers_who_moved_is_refreshed_once_for_all_of_them() -> None:
    labels, _ = crowd_of_classes(2, tasks=500, workers=50, labels_per_task=10, seed=5)
    engine = Engine("settled")
    engine.put(labels.task, labels.worker, labels.answer, np.zeros(len(labels)))
    weighed = 0
    while engine.refresh_due(100):
        weighed += 100
    assert weighed < 10 * len(labels)  # 7; once for each of them it was 15


@pytest.mark.parametrize("algorithm", ["fast-sbic", "settled"])
def test_labels_whose_tasks_are_computed_later_come_to_the_same(algorithm: AlgorithmName) -> None:
    labels, _ = crowd_of_classes(2, tasks=300, workers=40, labels_per_task=9, seed=6)
    at_once, later = (Engine(algorithm, tolerance=1e-9) for _ in range(2))
    votes = at_once.take(labels.task, labels.worker, labels.answer).votes
    later.release_workers(np.arange(labels.workers))  # their votes are known
    later.put(labels.task, labels.worker, labels.answer, votes, defers=True)
    later.acquire_workers(np.arange(labels.workers))
    assert later.due == labels.tasks  # a ninth label is no power of two
    for engine in (at_once, later):
        while engine.refresh_due():
            pass
    every = np.arange(labels.tasks)
    assert later.due == 0
    assert set(later.moved()) == set(every)
    assert later.beliefs(every) == pytest.approx(at_once.beliefs(every), abs=1e-6)
    who = np.arange(labels.workers)
    assert later.counts(who) == pytest.approx(at_once.counts(who), abs=1e-4)


def test_what_moved_is_told_once() -> None:
    engine = Engine("settled", tolerance=1e-3)
    engine.take([4, 7, 4], [0, 0, 1], [1, 0, 1])
    assert sorted(engine.moved()) == [4, 7]
    assert list(engine.moved()) == []
    while engine.refresh_due():
        pass
    before = engine.beliefs([4, 7])
    engine.take([4], [2], [0])
    assert 4 in engine.moved()
    while engine.refresh_due():
        pass
    moved = set(engine.moved().tolist())
    change = np.abs(engine.beliefs([4, 7]) - before).max(axis=1)
    assert (7 in moved) == (change[1] > 1e-3)


def test_habits_are_learned_and_balanced_classes_are_not_needed() -> None:
    labels, truth = crowd_of_classes(
        3, tasks=400, workers=40, labels_per_task=8, seed=6, habit=(0.9, 0.05, 0.05)
    )
    crowd = Settled[int, int, int](classes=(0, 1, 2))
    for i, j, x in zip(labels.task, labels.worker, labels.answer, strict=True):
        crowd.observe(int(i), int(j), int(x))
    crowd.settle()
    habits = crowd.worker(0).habits
    assert habits is not None
    assert habits[0] > 0.5
    assert settled(labels, Prior(), RNG).error(truth) < 0.1


def test_a_file_with_a_single_class_is_no_trouble() -> None:
    only = Labels.of_answers([("t1", "ann", 0), ("t2", "bob", None)], ("cat",))
    assert settled(only, Prior(), RNG).score.tolist() == [[1.0], [1.0]]


def test_the_names_of_the_classes_do_not_matter() -> None:
    labels, _ = crowd_of_classes(3, tasks=30, workers=10, labels_per_task=6, seed=7)
    other = np.array([2, 0, 1])
    renamed = replace(labels, answer=other[labels.answer])
    before, after = settled(labels, Prior(), RNG).score, settled(renamed, Prior(), RNG).score
    assert after[:, other] == pytest.approx(before, abs=1e-9)


@pytest.mark.parametrize(
    ("classes", "class_prior"),
    [(2, [0.5]), (2, [1.0, 0.0]), (3, [0.5, 0.5]), (2, [float("nan"), 1.0])],
)
def test_a_class_prior_that_is_none_is_refused(classes: int, class_prior: list[float]) -> None:
    with pytest.raises(ValueError, match="probabilities, each greater than 0"):
        Engine("settled", classes=classes, class_prior=class_prior)


def test_as_river_says_it() -> None:
    crowd = Settled[str, str, str](classes=("cat", "dog"))
    crowd.learn_one({"task": "t1", "worker": "ann"}, "dog")
    assert crowd.predict_proba_one({"task": "t1"}) == pytest.approx({"cat": 0.375, "dog": 0.625})


def test_gold_moves_its_workers_even_where_the_belief_is_certain_already() -> None:
    engine = Engine("settled", classes=2, tolerance=0.1)
    tasks, workers = (grid.ravel() for grid in np.meshgrid(np.arange(40), np.arange(20)))
    engine.take(tasks, workers, tasks % 2)
    engine.settle(1e-6)
    engine.moved_workers()
    assert engine.beliefs([1])[0, 1] > 1 - 1e-6
    engine.set_gold(1, 1)
    assert sorted(engine.moved_workers().tolist()) == list(range(20))
