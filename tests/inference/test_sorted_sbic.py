import numpy as np
import pytest
from hypothesis import given

from sbic.engine.labels import Labels, Prior
from sbic.research.sorted_sbic import sorted_sbic
from tests.inference.crowds import as_labels, as_triples, priors, random_crowd, triples
from tests.inference.paper import Triple, shared_views

RNG = np.random.default_rng()


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
