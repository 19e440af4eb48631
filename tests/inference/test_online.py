"""Each online algorithm gives the result of its offline form on the same labels."""

import json
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given

from sbic.engine.labels import Algorithm, Floats, Labels, Prior, sigmoid
from sbic.infer.dawid_skene import majority
from sbic.infer.registry import ALGORITHMS, ONLINE
from sbic.research.baselines import amf, em, kos
from sbic.research.online import CrowdSize, EngineOnline, MeanFieldOnline, Online
from tests.examples import examples
from tests.inference.crowds import as_triples, priors, random_crowd, triples
from tests.inference.paper import Triple, algorithm_1

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
