"""A simulated crowd is what its options say, and the same for the same seed."""

from random import Random

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from pipeline.inference.algorithm import Estimate, Prior
from pipeline.records.posteriors import posterior_of
from pipeline.tools.error_curve import ErrorCurve
from pipeline.tools.simulated_workers import Habits, Response, SimulatedWorker, Turns


def crowd(habits: Habits, count: int = 2000, visits: int = 10) -> list[SimulatedWorker]:
    return [SimulatedWorker(f"w{n}", habits, visits, Random(f"7/{n}")) for n in range(count)]


def test_accuracies_come_from_the_beta_distribution_and_answers_from_the_accuracies() -> None:
    workers = crowd(Habits(accuracy=Prior(4, 3)))
    assert abs(np.mean([w.accuracy for w in workers]) - 4 / 7) < 0.015
    assert abs(np.std([w.accuracy for w in workers]) - 0.175) < 0.015
    worker = workers[0]
    answers = [worker.respond(truth).labels[0] * truth for truth in (1, -1) * 2000]
    assert abs(np.mean(answers) - (2 * worker.accuracy - 1)) < 0.06


def test_each_habit_has_its_share() -> None:
    habits = Habits(spammers=0.3, drop_outs=0.25, skips=0.1, repeats=0.2, think_seconds=2)
    workers = crowd(habits)
    assert abs(np.mean([w.accuracy == 0.5 for w in workers]) - 0.3) < 0.04
    responses = [[w.respond(1) for _ in range(10)] for w in workers]
    gone = [any(r == Response(0.0, ()) for r in each) for each in responses]
    assert abs(np.mean(gone) - 0.25) < 0.04
    there = [r for each in responses for r in each if r.labels]
    assert abs(np.mean([r.labels == (0,) for r in there]) - 0.1) < 0.02
    answered = [r for r in there if r.labels != (0,)]
    assert abs(np.mean([len(r.labels) == 2 for r in answered]) - 0.2) < 0.02
    assert abs(np.mean([r.seconds for r in there]) - 2) < 0.1


def test_who_drops_out_never_answers_again() -> None:
    for worker in crowd(Habits(drop_outs=1.0 - 1e-12), count=200):
        given = [bool(worker.respond(1).labels) for _ in range(20)]
        assert not all(given[:10]), "on the way, not after it"
        assert given == sorted(given, reverse=True)


def test_the_same_seed_is_the_same_worker() -> None:
    one, same = (SimulatedWorker("w", Habits(skips=0.2), 5, Random("1/2")) for _ in range(2))
    assert [one.respond(1) for _ in range(50)] == [same.respond(1) for _ in range(50)]


@given(st.integers(1, 12), st.integers(1, 12), st.integers(0, 2**32))
def test_nobody_is_called_while_at_work_and_in_turns_all_come_equally_often(
    workers: int, seats: int, seed: int
) -> None:
    rng = Random(seed)
    names = [f"w{n}" for n in range(workers)]
    turns = Turns(dict.fromkeys(names), rng)
    came = dict.fromkeys(names, 0)
    at_work: list[str] = []
    for _ in range(200):
        name = turns.next() if len(at_work) < seats else None
        if name is None:
            turns.done(at_work.pop(rng.randrange(len(at_work))))
            continue
        assert name not in at_work
        at_work.append(name)
        came[name] += 1
    if seats == 1:
        assert max(came.values()) - min(came.values()) <= 1


def test_who_leaves_does_not_come_again() -> None:
    turns = Turns(dict.fromkeys(["ann", "bob"]), Random(1))
    first = turns.next()
    assert first is not None
    turns.leave(first)
    second = turns.next()
    assert second not in (None, first)
    assert turns.next() is None
    turns.done(str(second))
    assert turns.next() == second


@given(
    st.lists(
        st.tuples(st.integers(0, 3), st.floats(-3, 3), st.integers(0, 2)), min_size=1, max_size=60
    )
)
def test_the_curve_has_the_error_at_the_moment_each_average_was_reached(
    changes: list[tuple[int, float, int]],
) -> None:
    truth = {"t0": 1, "t1": -1, "t2": 1, "t3": -1}
    curve = ErrorCurve(truth)
    log_odds, labels = np.zeros(4), [0] * 4
    expected: list[float] = []
    for task, moved_to, more in changes:
        log_odds[task] = moved_to
        labels[task] += more
        curve.learn(posterior_of(f"t{task}", moved_to, labels[task], {}, 0))
        error = Estimate(log_odds).error(np.array(list(truth.values())))
        expected += [error] * (sum(labels) // 4 - len(expected))
        assert curve.error == error
    assert (curve.labels, curve.points) == (sum(labels), expected)
    curve.learn(posterior_of("of somebody else", 1.0, 100, {}, 0))
    assert curve.labels == sum(labels)
