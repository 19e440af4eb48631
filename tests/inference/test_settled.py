"""Settled equals its equations, as labels arrive and at rest, and the order leaves no trace."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import event, given
from hypothesis import strategies as st

from sbic.engine import RETRACT, AlgorithmName, outside
from sbic.engine.engine import ClassPrior, Engine
from sbic.engine.formulas import look
from sbic.engine.labels import AnyEstimate, Floats, Labels, Prior
from sbic.engine.outside import Moments, prediction_powered
from sbic.engine.state import NONE, G, M, S
from sbic.infer.settled import Settled, settled, settled_live
from tests.examples import examples
from tests.inference.crowds import crowd_of_classes, real_crowd
from tests.inference.operations import AT_LAST, COMMON, REST, WORKERS, Operation, happen, operations
from tests.inference.settled_transcription import Transcription, calibrated

RNG = np.random.default_rng()
TWO = [
    *((0, "a", 1, 0.633333), (0, "b", 1, 0.785215), (0, "c", 0, 0.640633)),
    *((1, "a", 0, 0.386721), (1, "b", 0, 0.259119), (2, "a", 1, 0.635995)),
    *((2, "c", 0, 0.521495), (1, "c", 1, 0.381715), (2, "b", 1, 0.607584)),
]
TWO_AT_REST = [0.607608, 0.382119, 0.607608]
THREE = [
    (0, "a", 2, (0.200000, 0.200000, 0.600000)),
    (0, "b", 2, (0.064931, 0.064931, 0.870138)),
    (0, "c", 0, (0.202730, 0.056846, 0.740424)),
    (1, "a", 1, (0.193251, 0.610840, 0.195909)),
    (1, "b", 1, (0.064792, 0.869652, 0.065556)),
    (1, "c", 0, (0.160929, 0.779216, 0.059855)),
    (2, "c", 0, (0.517360, 0.241485, 0.241155)),
    (2, "a", 0, (0.803232, 0.098446, 0.098323)),
]
THREE_AT_REST = [
    *((0.102415, 0.034034, 0.863551), (0.102415, 0.863551, 0.034034)),
    (0.881667, 0.059166, 0.059166),
]
# Of 80 tasks of six judges who err together: m, S, g, ρ, votes of the last task, a, b, its inner
# and its published probabilities; by the number of classes, gold tasks, and copies of a judge.
JURIES: dict[tuple[int, int, int], tuple[float, ...]] = {
    (2, 0, 0): (
        60, 1024, 0.821457, 0.381356, 2.064141, 1, 0, 0,
        0.121101, 0.878899, 0.335844, 0.664156,
    ),
    (2, 12, 0): (
        60, 1024, 0.818356, 0.440197, 1.874423, 1.145844, -0.103054, 0.103054,
        0.187935, 0.812065, 0.325198, 0.674802,
    ),
    (3, 0, 0): (
        30.388493, 1024, 0.775978, 0.011753, 5.666986, 1, 0, 0,
        0, 0.001549, 0.419997, 0.578454, 0.002135, 0.424077, 0.573788,
    ),
    (3, 12, 0): (
        32.895973, 1024, 0.775710, 0.015698, 5.563345, 0.709578, -0.059771, -0.126908,
        0.186679, 0.001789, 0.463827, 0.534384, 0.010914, 0.395328, 0.593757,
    ),
    (2, 0, 1): (
        60, 1024, 0.816445, 0.391651, 2.028223, 1, 0, 0,
        0.120040, 0.879960, 0.337739, 0.662261,
    ),
    (3, 12, 1): (
        37.419123, 1024, 0.764984, 0.014367, 5.597865, 0.694202, -0.057674, -0.127781,
        0.185456, 0.001907, 0.466740, 0.531352, 0.012086, 0.397125, 0.590789,
    ),
}  # fmt: skip


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


def jury(classes: int) -> tuple[list[tuple[int, int, int]], list[int]]:
    """Judges who repeat, with probability 0.35, how most misread a task; and the truth."""
    seed = 12345

    def random() -> float:
        nonlocal seed
        seed = (1103515245 * seed + 12345) % 2**31
        return seed / 2**31

    labels, truth = [], []
    for i in range(80):
        truth.append(int(random() * classes))
        common = truth[i] if random() < 0.7 else int(random() * classes)
        for j in range(6):
            repeats = random() < 0.35
            own = truth[i] if random() < 0.5 + 0.07 * j else int(random() * classes)
            labels.append((i, j, common if repeats else own))
    return labels, truth


@pytest.mark.parametrize(("classes", "golds", "copies"), JURIES)
def test_the_test_vectors_of_judges_who_err_together(classes: int, golds: int, copies: int) -> None:
    labels, truth = jury(classes)
    labels += [(i, 6, x) for i, j, x in labels if j == 1][: 80 * copies]
    for order in (labels, labels[::-1]):
        engine = Engine("settled", classes=classes, common=10)
        engine.take(*zip(*order, strict=True))
        for i in range(golds):
            engine.set_gold(i, truth[i])
        engine.settle(1e-12)
        now, at_rest = engine.outside, engine.state.crowd[[M, S, G]]
        found = [*at_rest, now.dependence, engine.effective_votes([79])[0], now.scale, *now.bias]
        found += [*engine.inner_beliefs([79])[0], *engine.beliefs([79])[0]]
        assert found == pytest.approx(JURIES[classes, golds, copies], rel=1e-6, abs=1e-6)


GROUPS = st.lists(st.sampled_from([None, None, 0, 1]), min_size=WORKERS, max_size=WORKERS)


def say_groups(engine: Engine, by_hand: Transcription, groups: list[int | None]) -> None:
    engine.set_groups(np.arange(WORKERS), [NONE if group is None else group for group in groups])
    by_hand.group = {j: group for j, group in enumerate(groups) if group is not None}


@given(
    st.integers(2, 6),
    operations(40),
    st.sampled_from(["learned", "uniform", "given"]),
    GROUPS,
    GROUPS,
)
@examples(100)
def test_the_engine_equals_the_equations_whatever_happens(
    classes: int,
    drawn: list[Operation],
    kind: str,
    groups: list[int | None],
    at_last: list[int | None],
) -> None:
    given_prior = np.arange(1, classes + 1) / np.arange(1, classes + 1).sum()
    fixed = {"learned": None, "uniform": [1 / classes] * classes, "given": given_prior.tolist()}
    class_prior: ClassPrior = given_prior.tolist() if kind == "given" else kind  # type: ignore[assignment]
    engine = Engine(
        "settled", classes=classes, prior=Prior(3, 1.5), class_prior=class_prior, common=COMMON
    )
    by_hand = Transcription(classes, 3, 1.5, fixed[kind], common=COMMON)
    say_groups(engine, by_hand, groups)
    for operation in [*drawn, AT_LAST]:
        if operation is AT_LAST:
            say_groups(engine, by_hand, at_last)
        happen(operation, engine, by_hand)
        compare(engine, by_hand)
        is_to_rest = operation[0] == "settle" and any(by_hand.labels.values())
        if is_to_rest and by_hand.settle(REST):
            engine.settle(REST)
            compare(engine, by_hand)
            compare_published(engine, by_hand)
            assert not engine.refresh_due(10**6)
            compare(engine, by_hand)
            event(f"copies: {bool(by_hand.copy)}")


def compare(engine: Engine, by_hand: Transcription) -> None:
    tasks = [i for i, labels in by_hand.labels.items() if labels]
    for i in tasks:
        assert engine.inner_beliefs([i])[0] == pytest.approx(by_hand.belief[i], abs=1e-9)
        assert engine.labels(i) == len(by_hand.labels[i])
    for j in by_hand.workers():
        rows = np.array(by_hand.rows(j)).T.ravel()  # the engine has a row for each answer
        assert engine.counts([j])[0] == pytest.approx(rows, abs=1e-9)
    numbers, rho = engine.sums
    right = sum(by_hand.belief[i][x] for i in tasks for x in by_hand.labels[i].values())
    free = by_hand.free()
    assert numbers[:3] == pytest.approx(
        [sum(len(by_hand.labels[i]) for i in tasks), right, len(free)], abs=1e-9
    )
    assert rho == pytest.approx(sum(np.array(by_hand.belief[i]) for i in free), abs=1e-9)
    look(engine.state)
    expected = by_hand.m(), by_hand.strength(), by_hand.g()
    assert engine.state.crowd[[M, S, G]] == pytest.approx(expected, rel=1e-9)


def compare_published(engine: Engine, by_hand: Transcription) -> None:
    now = engine.outside
    found, expected = [now.dependence, now.scale, *now.bias], [by_hand.dependence, by_hand.scale]
    assert found == pytest.approx([*expected, *by_hand.bias], abs=1e-9)
    for i in [i for i, labels in by_hand.labels.items() if labels]:
        assert engine.beliefs([i])[0] == pytest.approx(by_hand.published(i), abs=1e-9)


@given(
    st.integers(2, 6), st.integers(0, 20), st.sampled_from([0.1, 1, 5, 20]), st.integers(0, 10**6)
)
def test_a_calibration_is_the_most_probable_one_even_where_gold_contradicts(
    classes: int, golds: int, far: float, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    x, truth = far * rng.normal(size=(golds, classes)), rng.integers(classes, size=golds)
    if seed % 2:  # all are right, or all are wrong
        truth = x.argmax(axis=1) if seed % 4 == 1 else x.argmin(axis=1)
    scale, bias = outside.calibrated(x, truth)
    found = calibrated(list(zip(x.tolist(), truth.tolist(), strict=True)), classes)
    assert [scale, *bias] == pytest.approx([found[0], *found[1]], rel=1e-9, abs=1e-9)


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
        *(("birds", 0.1111), ("ducks", 0.3833), ("rte", 0.0700), ("temp", 0.0584)),
        *(("dog", 0.1673), ("face", 0.3579)),
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
    assert weighed < 12 * len(labels)  # 11; once for each of them about twice as many


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


@given(st.integers(0, 10**6), st.sampled_from([2, 3, 4]))
@examples(12)
def test_what_was_told_is_what_is_published_though_the_dependence_comes_and_goes(
    seed: int, classes: int
) -> None:
    """Beliefs near certainty no longer move, but what is published of them does."""
    rng, tolerance = np.random.default_rng(seed), 1e-3
    engine, told = Engine("settled", classes=classes, tolerance=tolerance), np.zeros((80, classes))
    truth, shared = rng.integers(classes, size=(2, 80))
    tasks, seen = np.arange(80), 0.0
    for workers, together in [(12, 0.5), (60, 0.0), (70, 0.9)]:
        says = np.where(rng.random(80) < together, shared, truth)
        for worker in rng.permutation(np.arange(workers - 12, workers)):
            wrong = rng.integers(classes, size=80)
            answers = np.where(rng.random(80) < 0.85, says, wrong)
            engine.take(tasks, np.full(80, worker), answers)
            engine.set_gold(int(rng.integers(80)), int(rng.integers(classes)))
            for task in rng.integers(80, size=5).tolist():
                engine.set_gold(task, None)
            while engine.refresh_due(200):
                moved = engine.moved(int(rng.integers(1, 40)))
                told[moved] = engine.beliefs(moved)
            moved = engine.moved()
            told[moved] = engine.beliefs(moved)
            seen = max(seen, engine.outside.dependence)
            is_open = engine.golds(tasks) < 0
            assert told[is_open] == pytest.approx(engine.beliefs(tasks)[is_open], abs=2 * tolerance)
    assert seen > 0.1


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
    assert crowd.predict_proba_one({"task": "t1"}) == pytest.approx(
        {"cat": 11 / 30, "dog": 19 / 30}
    )


def test_gold_moves_its_workers_even_where_the_belief_is_certain_already() -> None:
    engine = Engine("settled", classes=2, tolerance=0.1)
    tasks, workers = (grid.ravel() for grid in np.meshgrid(np.arange(40), np.arange(20)))
    engine.take(tasks, workers, tasks % 2)
    engine.settle(1e-6)
    engine.moved_workers()
    assert engine.inner_beliefs([1])[0, 1] > 1 - 1e-6
    engine.set_gold(1, 1)
    assert sorted(engine.moved_workers().tolist()) == list(range(20))


def test_gold_withdrawn_and_priors_leave_no_trace_at_rest() -> None:
    rng = np.random.default_rng(4)
    plain, changed = Engine("settled", classes=3), Engine("settled", classes=3)
    task, worker = np.repeat(np.arange(40), 6), np.tile(np.arange(6), 40)
    label = np.where(rng.random(240) < 0.7, task % 3, rng.integers(3, size=240))
    for engine in (plain, changed):
        engine.take(task, worker, label)
    changed.set_gold(3, 2)
    changed.set_prior(5, (0.7, 0.2, 0.1))
    changed.settle(1e-12)
    every = np.arange(40)
    assert np.abs(changed.inner_beliefs(every) - plain.inner_beliefs(every)).max() > 0.01
    changed.set_gold(3, None)
    changed.set_prior(5, None)
    for engine in (plain, changed):
        engine.settle(1e-12)
    assert changed.inner_beliefs(every) == pytest.approx(plain.inner_beliefs(every), abs=1e-9)
    assert changed.beliefs(every) == pytest.approx(plain.beliefs(every), abs=1e-9)


def test_gold_by_name_calibrates_and_corrects_the_shares_of_classes() -> None:
    labels, truth = jury(3)
    names = "cat", "dog", "bird"
    crowd, engine = Settled[int, int, str](classes=names), Engine("settled", classes=3)
    for i, j, x in labels:
        crowd.observe(i, j, names[x])
    crowd.settle()
    assert crowd.prevalence() is None
    alone = crowd.probabilities(79)
    for i in range(12):
        crowd.set_gold(i, names[truth[i]])
    crowd.settle()
    engine.take(*zip(*labels, strict=True))
    for i in range(12):
        engine.set_gold(i, truth[i])
    engine.find_copies()
    engine.settle(1e-9)
    found, expected = crowd.prevalence(), engine.prevalence()
    assert found is not None
    assert expected is not None
    assert list(found) == list(names)
    assert pytest.approx(expected, abs=1e-6) == np.array(list(found.values())).T
    assert crowd.dependence == pytest.approx(engine.outside.dependence, abs=1e-6)
    assert crowd.effective_votes(79) == pytest.approx(engine.effective_votes([79])[0], abs=1e-4)
    for i in range(12):
        crowd.set_gold(i, None)
    crowd.settle()
    assert crowd.probabilities(79) == pytest.approx(alone, abs=1e-6)


def literal(every: Floats, f: Floats, y: Floats) -> tuple[float, float]:
    """PPI++ as design 3.2 writes it: the mean and its variance."""
    golds, tasks = len(f), len(every)
    power = np.cov(y, f)[0, 1] / (np.var(f, ddof=1) * (1 + golds / tasks))
    power = min(max(power, 0.0), 1.0)
    rest = np.var(y - power * f, ddof=1) / golds + power**2 * np.var(every) / tasks
    return power * every.mean() + (y - power * f).mean(), rest


@given(st.integers(2, 30), st.integers(0, 60), st.integers(2, 5), st.integers(0, 10**6))
def test_moments_of_parts_give_what_the_formula_of_prevalence_gives(
    golds: int, others: int, classes: int, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    p = rng.dirichlet(np.ones(classes), golds + others)
    truth = np.array([rng.choice(classes, p=row) for row in p[:golds]])
    known = np.concatenate((truth, np.full(others, -1)))
    cut = rng.integers(0, len(p) + 1)
    parts = [Moments.of_shares(p[some], known[some]) for some in (slice(cut), slice(cut, None))]
    mean, half = prediction_powered(parts[0].plus(parts[1]), z=1.0)
    for k in range(classes):
        expected, variance = literal(p[:, k], p[:golds, k], (truth == k) * 1.0)
        assert mean[k] == pytest.approx(expected, abs=1e-9)
        assert half[k] ** 2 == pytest.approx(variance, abs=1e-9)
