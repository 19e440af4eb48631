import json
import subprocess
import sys
from math import log

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sbic.engine.labels import Floats, Labels, Prior
from sbic.infer.fast_sbic import FastSBIC, fast_sbic
from tests.inference.crowds import as_labels, as_triples, priors, random_crowd, triples
from tests.inference.paper import Triple, algorithm_1, expit

crowds = triples(tasks=30, workers=3, most=70)
operations = st.lists(
    st.tuples(
        st.sampled_from(["observe", "observe", "observe", "revert", "prior"]),
        st.integers(0, 24),
        st.integers(0, 2),
        st.sampled_from([1, -1]),
        st.floats(0.01, 0.99),
    ),
    max_size=80,
)


def log_odds(labels: Labels, prior: Prior) -> Floats:
    return fast_sbic(labels, prior, np.random.default_rng()).score


@given(crowds, priors)
def test_in_a_batch_and_one_by_one_it_is_algorithm_1(crowd: list[Triple], prior: Prior) -> None:
    labels = as_labels(crowd)
    expected = algorithm_1(crowd, labels.tasks, prior)
    assert log_odds(labels, prior) == pytest.approx(expected, rel=1e-12, abs=1e-12)
    single: FastSBIC[int, int] = FastSBIC(prior)
    for triple in crowd:
        single.observe(*triple)
    by_one = [single.log_odds(task) for task in range(labels.tasks)]
    assert by_one == pytest.approx(expected, rel=1e-12, abs=1e-12)


def test_it_is_algorithm_1_on_a_large_crowd() -> None:
    labels = random_crowd(tasks=100, workers=50, labels_per_worker=40, seed=1)
    prior = Prior(4, 3, 0.4)
    expected = algorithm_1(as_triples(labels), labels.tasks, prior)
    assert log_odds(labels, prior) == pytest.approx(expected, rel=1e-12, abs=1e-12)


def test_log_odds_that_no_exponential_can_hold_are_no_trouble() -> None:
    labels = as_labels([(i, j, -1) for j in range(400) for i in range(20)])
    estimate = log_odds(labels, Prior(alpha=50, beta=0.1))
    assert np.all(estimate < -1000)
    assert np.all(np.isfinite(estimate))


def test_observe_returns_the_vote_and_the_log_odds_with_it() -> None:
    labels = random_crowd(tasks=40, workers=5, labels_per_worker=30, seed=2)
    crowd: FastSBIC[int, int] = FastSBIC(Prior(4, 3, 0.3))
    for task, worker, label in zip(labels.task, labels.worker, labels.label, strict=True):
        before = crowd.log_odds(task)
        p = crowd.accuracy(worker)
        vote, log_odds = crowd.observe(task, worker, label)
        assert vote == pytest.approx(label * log(p / (1 - p)), abs=1e-12)
        assert log_odds == crowd.log_odds(task) == before + vote


@given(operations, priors)
def test_whatever_is_taken_back_counts_are_those_of_the_labels_that_stand(
    operations: list[tuple[str, int, int, int, float]], prior: Prior
) -> None:
    crowd: FastSBIC[str, str] = FastSBIC(prior)
    start: dict[str, float] = {}
    standing: dict[tuple[str, str], tuple[int, float]] = {}
    for verb, task_number, worker_number, label, q in operations:
        task, worker = f"t{task_number}", f"w{worker_number}"
        if verb == "prior":
            crowd.set_prior(task, q)
            start[task] = log(q / (1 - q))
        elif (task, worker) in standing:
            if verb == "revert":
                del standing[task, worker]
                crowd.revert(task, worker)
        elif verb == "observe":
            standing[task, worker] = label, crowd.observe(task, worker, label)[0]

    z = {f"t{i}": start.get(f"t{i}", prior.log_odds) for i in range(25)}
    for (task, _), (_, vote) in standing.items():
        z[task] += vote
    assert {task: crowd.log_odds(task) for task in z} == z
    for worker in ("w0", "w1", "w2"):
        own = [(x, z[task]) for (task, j), (x, _) in standing.items() if j == worker]
        assert crowd.labels(worker) == len(own)
        assert crowd.correct(worker) == pytest.approx(sum(expit(x * z) for x, z in own), abs=1e-12)


def test_reverting_leaves_not_even_rounding_behind() -> None:
    crowd: FastSBIC[str, int] = FastSBIC(Prior(3, 1.7, 0.3))
    for worker in range(10):
        crowd.observe("t", worker, 1 if worker % 3 else -1)
    before = crowd.log_odds("t")
    crowd.observe("t", 10, 1)
    crowd.observe("t", 11, -1)
    crowd.revert("t", 10)
    assert crowd.revert("t", 11) == before


def test_a_prior_of_its_own_shifts_a_task_and_no_other() -> None:
    crowd: FastSBIC[str, str] = FastSBIC()
    crowd.observe("t", "ann", 1)
    crowd.observe("u", "ann", 1)
    before, other = crowd.log_odds("t"), crowd.log_odds("u")
    assert crowd.set_prior("t", 0.2) == pytest.approx(before + log(0.2 / 0.8), abs=1e-15)
    assert crowd.set_prior("t", 0.5) == before
    assert crowd.log_odds("u") == other


@pytest.mark.parametrize("q", [0, 1, -0.5, float("nan")])
def test_a_prior_that_is_no_probability_is_refused(q: float) -> None:
    with pytest.raises(ValueError, match="between 0 and 1"):
        FastSBIC[str, str]().set_prior("t", q)


def test_a_second_answer_to_a_task_is_refused_and_changes_nothing() -> None:
    crowd: FastSBIC[str, str] = FastSBIC()
    _, log_odds = crowd.observe("t", "ann", 1)
    with pytest.raises(ValueError, match="'ann' has answered task 't' before"):
        crowd.observe("t", "ann", -1)
    assert (crowd.log_odds("t"), crowd.labels("ann")) == (log_odds, 1)


def test_only_1_and_minus_1_are_labels() -> None:
    with pytest.raises(ValueError, match="a label is -1 or 1, not 0"):
        FastSBIC[str, str]().observe("t", "ann", 0)


def test_what_was_not_answered_cannot_be_taken_back() -> None:
    crowd: FastSBIC[str, str] = FastSBIC()
    crowd.observe("t", "ann", 1)
    with pytest.raises(KeyError):
        crowd.revert("t", "bob")
    with pytest.raises(KeyError):
        crowd.revert("u", "ann")


LINES_OF_A_LABEL = """
import json, sys
sys.modules["numba"] = None  # a compiled line cannot be counted
from sbic.engine.engine import Engine
def lines(algorithm, before):
    engine = Engine(algorithm)
    engine.make_room(before + 1, 1, 2 * before)
    engine.take(range(before), [0] * before, [1] * before)
    count = 0
    def trace(frame, event, _):
        nonlocal count
        count += event == "line"
        return trace
    sys.settrace(trace)
    engine.take_one(before, 0, 1)
    sys.settrace(None)
    return count
json.dump([[lines(name, n) for n in (20, 3000)] for name in ("fast-sbic", "settled")], sys.stdout)
"""


def test_the_cost_of_a_label_does_not_depend_on_how_many_its_worker_gave_before() -> None:
    command = [sys.executable, "-c", LINES_OF_A_LABEL]
    run = subprocess.run(command, capture_output=True, text=True, check=True)
    for few, many in json.loads(run.stdout):
        assert few == many > 20
