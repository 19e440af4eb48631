"""A simulated crowd is what its options say, and the same for the same seed."""

from collections import Counter
from random import Random

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from sbic.classes import SIGNS, SKIP, Classes
from sbic.commands.crowd import ErrorCurve, Habits, Plan, Response, RoundRobin, SimulatedWorker
from sbic.engine.labels import Estimate, Prior
from tests.records.made import parsed, posterior_of

PETS = Classes.parse("cat,dog,bird")


def crowd(habits: Habits, count: int = 2000, visits: int = 10) -> list[SimulatedWorker]:
    return [SimulatedWorker(f"w{n}", habits, visits, Random(f"7/{n}")) for n in range(count)]


def test_accuracies_come_from_the_beta_distribution_and_answers_from_the_accuracies() -> None:
    workers = crowd(Habits(accuracy=Prior(4, 3)))
    assert abs(np.mean([w.accuracy for w in workers]) - 4 / 7) < 0.015
    assert abs(np.std([w.accuracy for w in workers]) - 0.175) < 0.015
    worker = workers[0]
    right = [worker.respond(truth).labels[0] == truth for truth in (1, 0) * 2000]
    assert abs(np.mean(right) - worker.accuracy) < 0.03


def test_each_habit_has_its_share() -> None:
    habits = Habits(spammers=0.3, drop_outs=0.25, skips=0.1, repeats=0.2, think_seconds=2)
    workers = crowd(habits)
    assert abs(np.mean([w.accuracy == 0.5 for w in workers]) - 0.3) < 0.04
    responses = [[w.respond(1) for _ in range(10)] for w in workers]
    gone = [any(r == Response(0.0, ()) for r in each) for each in responses]
    assert abs(np.mean(gone) - 0.25) < 0.04
    there = [r for each in responses for r in each if r.labels]
    assert abs(np.mean([r.labels == (SKIP,) for r in there]) - 0.1) < 0.02
    answered = [r for r in there if r.labels != (SKIP,)]
    assert abs(np.mean([len(r.labels) == 2 for r in answered]) - 0.2) < 0.02
    assert abs(np.mean([r.seconds for r in there]) - 2) < 0.1


def test_of_several_classes_the_wrong_ones_are_said_equally_often() -> None:
    worker = SimulatedWorker("w", Habits(accuracy=Prior(6e6, 4e6)), 10, Random(1), PETS)
    said = Counter(worker.respond(1).labels[0] for _ in range(6000))
    assert said.keys() == {0, 1, 2}
    assert abs(said[1] / 6000 - 0.6) < 0.03
    assert abs(said[0] / 6000 - 0.2) < 0.03


def test_of_grades_the_wrong_ones_are_said_less_often_the_further_they_are() -> None:
    stars, never = Classes.of_scale("1..5"), Habits(accuracy=Prior(1e-9, 1e9))
    worker = SimulatedWorker("ann", never, 1, Random(3), stars)
    said = Counter(worker.respond(0).labels[0] for _ in range(3000))
    assert 0 not in said
    assert said[1] > said[2] > said[3] > said[4] > 0


def test_a_spammer_draws_any_of_the_classes() -> None:
    spammer = SimulatedWorker("w", Habits(spammers=1.0), 10, Random(1), PETS)
    assert spammer.accuracy == 1 / 3


def test_workers_with_a_habit_favour_one_class_each_their_own_and_are_right_as_often() -> None:
    habits = Habits(accuracy=Prior(6e6, 4e6), habitual=0.4)
    workers = [SimulatedWorker(f"w{n}", habits, 9, Random(f"3/{n}"), PETS) for n in range(2000)]
    favourites = Counter(worker.favourite for worker in workers)
    assert abs(favourites[None] / 2000 - 0.6) < 0.04
    assert favourites.keys() == {None, 0, 1, 2}
    worker = next(worker for worker in workers if worker.favourite == 0)
    given = [(truth, worker.respond(truth).labels[0]) for truth in (0, 1, 2) * 3000]
    assert abs(np.mean([truth == said for truth, said in given]) - 0.6) < 0.03
    wrong = Counter(said for truth, said in given if truth != said)
    assert wrong[0] > 4 * (wrong[1] + wrong[2])


def test_without_habits_a_worker_is_who_they_were_before_there_were_any() -> None:
    with_none = SimulatedWorker("w", Habits(habitual=0.0), 5, Random("1/2"))
    assert with_none.favourite is None
    rng = Random("1/2")
    expected = rng.betavariate(4, 3)
    assert with_none.accuracy == expected


def test_the_truth_has_the_frequencies_of_the_plan() -> None:
    plan = Plan(tasks=5000, classes=PETS, class_prior=(0.7, 0.2, 0.1))
    counts = Counter(plan.draw_truth("x").values())
    for number, share in enumerate((0.7, 0.2, 0.1)):
        assert abs(counts[number] / 5000 - share) < 0.03
    even = Counter(Plan(tasks=5000, classes=PETS).draw_truth("x").values())
    assert all(abs(count / 5000 - 1 / 3) < 0.03 for count in even.values())


def test_who_drops_out_never_answers_again() -> None:
    for worker in crowd(Habits(drop_outs=1.0 - 1e-12), count=200):
        given = [bool(worker.respond(1).labels) for _ in range(20)]
        assert not all(given[:10]), "on the way, not after it"
        assert given == sorted(given, reverse=True)


def test_the_same_seed_is_the_same_worker() -> None:
    one, same = (SimulatedWorker("w", Habits(skips=0.2), 5, Random("1/2")) for _ in range(2))
    assert [one.respond(1) for _ in range(50)] == [same.respond(1) for _ in range(50)]


@given(st.integers(1, 12), st.integers(1, 12), st.integers(0, 2**32))
def test_no_worker_is_called_while_at_work_and_in_turns_all_come_equally_often(
    workers: int, at_once: int, seed: int
) -> None:
    rng = Random(seed)
    names = [f"w{n}" for n in range(workers)]
    order = RoundRobin(dict.fromkeys(names), rng)
    came = dict.fromkeys(names, 0)
    at_work: list[str] = []
    for _ in range(200):
        name = order.next() if len(at_work) < at_once else None
        if name is None:
            order.done(at_work.pop(rng.randrange(len(at_work))))
            continue
        assert name not in at_work
        at_work.append(name)
        came[name] += 1
    if at_once == 1:
        assert max(came.values()) - min(came.values()) <= 1


def test_who_leaves_does_not_come_again() -> None:
    order = RoundRobin(dict.fromkeys(["ann", "bob"]), Random(1))
    first = order.next()
    assert first is not None
    order.leave(first)
    second = order.next()
    assert second not in (None, first)
    assert order.next() is None
    order.done(str(second))
    assert order.next() == second


@given(
    st.lists(
        st.tuples(st.integers(0, 3), st.floats(-3, 3), st.integers(0, 2)), min_size=1, max_size=60
    )
)
def test_the_curve_has_the_error_at_the_moment_each_average_was_reached(
    changes: list[tuple[int, float, int]],
) -> None:
    truth = {"t0": 1, "t1": 0, "t2": 1, "t3": 0}
    curve = ErrorCurve(truth)
    log_odds, labels = np.zeros(4), [0] * 4
    expected: list[float] = []
    for task, moved_to, more in changes:
        log_odds[task] = moved_to
        labels[task] += more
        curve.learn(parsed(SIGNS, posterior_of(f"t{task}", moved_to, labels[task], {}, 0)))
        error = Estimate(log_odds).error(np.array([*truth.values()]))
        expected += [error] * (sum(labels) // 4 - len(expected))
        assert curve.error == error
    assert (curve.labels, curve.points) == (sum(labels), expected)
    curve.learn(parsed(SIGNS, posterior_of("of somebody else", 1.0, 100, {}, 0)))
    assert curve.labels == sum(labels)
