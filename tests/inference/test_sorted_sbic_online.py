import numpy as np
import pytest
from hypothesis import given

from sbic.engine.labels import Prior
from sbic.research.sorted_online import SortedSBIC
from tests.inference.crowds import as_labels, as_triples, priors, random_crowd, triples
from tests.inference.paper import Triple, algorithm_2


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
