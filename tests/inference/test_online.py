"""Each online algorithm gives the result of its offline form on the same labels."""

import json
import subprocess
import sys
from dataclasses import replace
from itertools import product
from math import lgamma

import numpy as np
import pytest
from hypothesis import given

from sbic.engine.labels import Algorithm, Floats, Labels, Prior, sigmoid
from sbic.infer.dawid_skene import majority
from sbic.infer.registry import ALGORITHMS, ONLINE
from sbic.research.baselines import amf, em, kos
from sbic.research.online import CrowdSize, EngineOnline, MeanFieldOnline, Online
from sbic.research.particle_filter import ParticleFilter
from sbic.research.sorted_online import SortedSBIC
from sbic.research.sorted_sbic import sorted_sbic
from tests.examples import examples
from tests.inference.crowds import as_labels, as_triples, priors, random_crowd, triples
from tests.inference.paper import Triple, algorithm_1, algorithm_2, shared_views

RNG = np.random.default_rng()
PRIOR = Prior(4, 3)
CROWD = random_crowd(tasks=30, workers=20, labels_per_worker=9, seed=1, accuracy=0.65)


def form(name: str, prior: Prior = PRIOR) -> Online:
    size = CrowdSize(CROWD.tasks, CROWD.workers, 9)
    return ALGORITHMS[name].load_online()(size, prior, np.random.default_rng(1))


def first(labels: Labels, count: int) -> Labels:
    return labels.in_order(np.arange(count))


def observe_all(online: Online, labels: Labels = CROWD) -> Floats:
    for triple in as_triples(labels):
        online.observe(*triple)
    return online.score


@pytest.mark.parametrize("name", ONLINE)
def test_observe_returns_the_score_of_the_labelled_task(name: str) -> None:
    online = form(name)
    for task, worker, label in as_triples(CROWD):
        assert online.observe(task, worker, label) == online.score[task]
        assert len(online.score) == CROWD.tasks


def test_where_a_label_moves_all_tasks_the_scores_are_one_array_that_a_policy_can_keep() -> None:
    for name in ONLINE:
        online = form(name)
        before = online.score
        observe_all(online)
        assert (before is online.score) == (not ALGORITHMS[name].moves_one_task)


def test_an_estimate_does_not_move_with_later_labels() -> None:
    for name in ONLINE:
        online = form(name)
        observe_all(online, first(CROWD, 100))
        estimate = online.estimate()
        score = estimate.score.copy()
        for task, worker, label in as_triples(CROWD)[100:]:
            online.observe(task, worker, label)
        assert np.array_equal(estimate.score, score), name


@given(triples(tasks=5, workers=4, most=15), priors)
@examples(50)
def test_fast_sbic_is_algorithm_1(labels: list[Triple], prior: Prior) -> None:
    online = EngineOnline("fast-sbic", CrowdSize(5, 4, 5), prior)
    for triple in labels:
        online.observe(*triple)
    assert online.score == pytest.approx(algorithm_1(labels, 5, prior), abs=1e-9)


@pytest.mark.parametrize("count", [1, 2, 50, len(CROWD)])
def test_majority_and_kos_equal_their_offline_forms_at_every_point(count: int) -> None:
    some = first(CROWD, count)
    assert np.array_equal(observe_all(form("majority"), some), majority(some, PRIOR, RNG).score)
    offline = kos(some, PRIOR, RNG, iterations=5).score
    assert observe_all(form("kos"), some) == pytest.approx(offline, abs=1e-12)


@pytest.mark.parametrize(("name", "offline"), [("amf", amf), ("em", em)])
@pytest.mark.parametrize("count", [1, 100, len(CROWD)])
@pytest.mark.parametrize("prior", [PRIOR, Prior(3, 2, q=0.3)])
def test_the_estimate_of_mean_field_is_that_from_scratch(
    name: str, offline: Algorithm, count: int, prior: Prior
) -> None:
    some = first(CROWD, count)
    online = form(name, prior)
    observe_all(online, some)
    expected = offline(some, prior, RNG).score
    assert online.estimate().score == pytest.approx(expected, abs=1e-9)


def test_mean_field_that_has_converged_online_is_where_it_converges_offline() -> None:
    online = MeanFieldOnline(
        *(CROWD.tasks, CROWD.workers, 9, PRIOR), right=4, wrong=3, iterations_per_label=300
    )
    offline = amf(CROWD, PRIOR, RNG, iterations=3000).score
    assert observe_all(online) == pytest.approx(offline, abs=1e-9)


def test_mean_field_goes_on_from_its_last_weights_for_four_iterations() -> None:
    online = form("amf")
    weight = np.full(CROWD.workers, np.log(4 / 3))
    for count, (task, worker, label) in enumerate(as_triples(CROWD)[:60], start=1):
        online.observe(task, worker, label)
        some = first(CROWD, count)
        said = np.zeros((CROWD.tasks, CROWD.workers))
        said[some.task, some.worker] = some.label
        for _ in range(4):
            log_odds = said @ weight
            right = np.where(said != 0, sigmoid(said * log_odds[:, None]), 0).sum(0)
            weight = np.log((right + 4) / (np.abs(said).sum(0) - right + 3))
        assert online.score == pytest.approx(log_odds, abs=1e-9)


def mirrored(labels: Labels) -> Labels:
    return replace(labels, answer=1 - labels.answer)


@pytest.mark.parametrize("name", [name for name in ONLINE if name != "mc"])
def test_no_form_prefers_yes_or_no(name: str) -> None:
    yes, no = observe_all(form(name)), observe_all(form(name), mirrored(CROWD))
    assert yes == pytest.approx(-no, abs=1e-9)


def test_an_algorithm_without_an_online_form_names_those_that_have_one() -> None:
    with pytest.raises(ValueError, match="te has no online form; choose from majority, em"):
        form("te")


SCRIPT = """
import json, sys
sys.modules["numba"] = None  # as if it were not installed
import numpy as np
from sbic.engine.labels import Prior
from sbic.engine.compiled import IS_COMPILED
from sbic.research.online import CrowdSize
from sbic.infer.registry import ALGORITHMS, ONLINE
from sbic.research.simulated import Scan
assert not IS_COMPILED
labels = json.load(sys.stdin)
scores = []
for name in ONLINE:
    size = CrowdSize(30, 20, 9)
    online = ALGORITHMS[name].load_online()(size, Prior(4, 3), np.random.default_rng(1))
    for label in labels:
        online.observe(*label)
    scores.append(online.score.tolist())
    assert Scan(online.score).choose({0}) > 0
json.dump(scores, sys.stdout)
"""


def test_without_numba_the_scores_are_the_same() -> None:
    some = first(CROWD, 40)
    run = subprocess.run(
        [sys.executable, "-W", "error", "-c", SCRIPT],
        input=json.dumps(as_triples(some)),
        capture_output=True,
        text=True,
    )
    assert run.returncode == 0, run.stderr
    for name, score in zip(ONLINE, json.loads(run.stdout), strict=True):
        assert score == pytest.approx(observe_all(form(name), some), abs=1e-9), name


# The interval against the continued fraction of the incomplete Beta function.


@given(triples(tasks=9, workers=4, most=30), priors)
def test_shared_views_equal_those_copied_for_each_half(crowd: list[Triple], prior: Prior) -> None:
    labels = as_labels(crowd)
    expected = shared_views(crowd, labels.tasks, prior)
    assert sorted_sbic(labels, prior, RNG).score == pytest.approx(expected, abs=1e-9)


def test_shared_views_equal_those_copied_for_each_half_in_a_larger_crowd() -> None:
    labels = random_crowd(tasks=45, workers=30, labels_per_worker=20, seed=1)
    prior = Prior(4, 3, 0.4)
    expected = shared_views(as_triples(labels), labels.tasks, prior)
    assert sorted_sbic(labels, prior, RNG).score == pytest.approx(expected, abs=1e-9)


def test_the_labels_are_left_as_they_were() -> None:
    labels = random_crowd(tasks=20, workers=10, labels_per_worker=5, seed=2)
    copies = [column.copy() for column in (labels.task, labels.worker, labels.label)]
    first = sorted_sbic(labels, Prior(), RNG).score
    assert np.array_equal(copies, (labels.task, labels.worker, labels.label))
    assert np.array_equal(first, sorted_sbic(labels, Prior(), RNG).score)


def test_no_labels_leave_every_task_at_its_prior() -> None:
    prior = Prior(2, 1, 0.3)
    unanswered = Labels.of([("t1", "ann", 0), ("t2", "ann", 0)])
    assert sorted_sbic(unanswered, prior, RNG).score.tolist() == [prior.log_odds] * 2
    assert sorted_sbic(Labels.of([]), prior, RNG).score.tolist() == []


# The interval against the continued fraction of the incomplete Beta function.


@given(triples(tasks=8, workers=4, most=25), priors)
def test_the_log_odds_after_each_label_equal_the_paper(crowd: list[Triple], prior: Prior) -> None:
    labels = as_labels(crowd)
    ours = SortedSBIC(labels.tasks, labels.workers, labels.tasks, prior)
    for triple, expected in zip(crowd, algorithm_2(crowd, labels.tasks, prior), strict=True):
        ours.observe(*triple)
        assert ours.score == pytest.approx(expected, abs=1e-9)


def test_the_log_odds_equal_the_paper_after_many_labels() -> None:
    labels = random_crowd(tasks=25, workers=20, labels_per_worker=12, seed=1)
    prior = Prior(4, 3, 0.4)
    ours = SortedSBIC(labels.tasks, labels.workers, 12, prior)
    for triple in as_triples(labels):
        ours.observe(*triple)
    expected = algorithm_2(as_triples(labels), labels.tasks, prior)[-1]
    assert ours.score == pytest.approx(expected, abs=1e-9)


def test_log_odds_that_no_exponential_can_hold_are_no_trouble() -> None:
    ours = SortedSBIC(tasks=5, workers=400, labels_per_worker=5, prior=Prior(50, 0.1))
    for worker in range(400):
        for task in range(5):
            ours.observe(task, worker, -1)
    assert np.all((ours.score < -1000) & np.isfinite(ours.score))


@pytest.mark.parametrize(
    ("triple", "error", "reason"),
    [
        ((2, 0, 1), IndexError, "no such task"),
        ((-1, 0, 1), IndexError, "no such task"),
        ((0, 3, 1), IndexError, "no such task or worker"),
        ((1, 1, 0), ValueError, "a label is 1 or -1"),
        ((1, 0, 1), ValueError, "no room"),
    ],
)
def test_what_has_no_place_is_refused_and_changes_nothing(
    triple: Triple, error: type[Exception], reason: str
) -> None:
    ours = SortedSBIC(tasks=2, workers=3, labels_per_worker=1)
    ours.observe(0, 0, 1)
    before = ours.score.copy()
    with pytest.raises(error, match=reason):
        ours.observe(*triple)
    assert np.array_equal(ours.score, before)


def test_a_second_answer_to_a_task_is_refused() -> None:
    ours = SortedSBIC(tasks=2, workers=1, labels_per_worker=2)
    ours.observe(0, 0, 1)
    with pytest.raises(ValueError, match="has answered this task before"):
        ours.observe(0, 0, -1)


# The particle filter against the exact posterior, by adding up all possible truths.


TASKS, WORKERS = 4, 5
LABELS: list[Triple] = [
    *((0, 0, 1), (1, 0, 1), (2, 0, -1), (0, 1, 1), (1, 1, 1), (2, 1, -1), (3, 1, 1)),
    *((0, 2, -1), (3, 2, -1), (1, 3, -1), (2, 3, -1), (3, 4, 1), (0, 4, 1)),
]
PRIORS = [Prior(4, 3), Prior(2, 1, q=0.3)]


def log_beta(a: float, b: float) -> float:
    return lgamma(a) + lgamma(b) - lgamma(a + b)


def exact_score(labels: list[Triple], prior: Prior) -> Floats:
    """P(y_i = +1) - P(y_i = -1), the accuracies integrated out."""
    truths = np.array(list(product((-1, 1), repeat=TASKS)))
    log_weight = []
    for truth in truths:
        total = sum(np.log(prior.q if y > 0 else 1 - prior.q) for y in truth)
        for j in range(WORKERS):
            right = sum(truth[i] == x for i, worker, x in labels if worker == j)
            wrong = sum(truth[i] != x for i, worker, x in labels if worker == j)
            total += log_beta(prior.alpha + right, prior.beta + wrong)
        log_weight.append(total)
    weight = np.exp(np.array(log_weight) - max(log_weight))
    score: Floats = weight @ truths / weight.sum()
    return score


def filtered(
    labels: list[Triple], prior: Prior, seed: int, between_sweeps: int, more_sweeps: int = 0
) -> Floats:
    rng = np.random.default_rng(seed)
    crowd = ParticleFilter(
        *(TASKS, WORKERS, TASKS, prior, rng),
        particles=100_000,
        labels_between_sweeps=between_sweeps,
    )
    for label in labels:
        crowd.observe(*label)
    for _ in range(more_sweeps):
        crowd.sweep()
    return crowd.score


@pytest.mark.parametrize("prior", PRIORS)
@pytest.mark.parametrize("count", [1, 7, len(LABELS)])
def test_the_weights_alone_give_the_posterior(prior: Prior, count: int) -> None:
    score = filtered(LABELS[:count], prior, seed=1, between_sweeps=10**6)
    assert score == pytest.approx(exact_score(LABELS[:count], prior), abs=0.03)


@pytest.mark.parametrize("prior", PRIORS)
def test_the_sweeps_alone_give_the_posterior(prior: Prior) -> None:
    """They leave nothing of the weights, and need some rounds to forget where they began."""
    score = filtered(LABELS, prior, seed=2, between_sweeps=1, more_sweeps=20)
    assert score == pytest.approx(exact_score(LABELS, prior), abs=0.015)


def test_before_any_label_the_particles_follow_the_prior() -> None:
    score = filtered([], Prior(4, 3, q=0.3), seed=3, between_sweeps=10)
    assert score == pytest.approx([2 * 0.3 - 1] * TASKS, abs=0.02)


def test_the_weights_return_to_one_every_ten_labels() -> None:
    rng = np.random.default_rng(4)
    crowd = ParticleFilter(TASKS, WORKERS, TASKS, Prior(4, 3), rng)
    for count, label in enumerate(LABELS, start=1):
        crowd.observe(*label)
        of_fifty = (crowd.score + 1) * 25
        is_whole = np.allclose(of_fifty, of_fifty.round(), atol=1e-9)
        assert is_whole == (count == 10), count


def test_the_same_seed_gives_the_same_scores() -> None:
    runs = [filtered(LABELS, PRIORS[0], seed, between_sweeps=10) for seed in (5, 5, 6)]
    assert np.array_equal(runs[0], runs[1])
    assert not np.array_equal(runs[0], runs[2])
