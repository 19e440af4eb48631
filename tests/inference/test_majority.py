import numpy as np
import pytest

from sbic.engine.labels import TIE, ClassEstimate, Estimate, Labels, Prior
from sbic.infer.dawid_skene import majority


def test_the_score_is_the_balance_of_the_votes_and_a_tie_is_a_tie() -> None:
    answers = {"yes": (1, 1, -1), "tie": (1, -1, 0), "no": (-1, -1, -1)}
    labels = Labels.of(
        (task, str(worker), label) for task in answers for worker, label in enumerate(answers[task])
    )
    result = majority(labels, Prior(q=0.9), np.random.default_rng())
    assert isinstance(result, Estimate)
    assert result.score.tolist() == [1, 0, -3]
    assert result.prediction.tolist() == [1, 0, -1]
    assert result.probability is None
    assert result.error(np.array([1, 1, 1])) == 0.5


def test_of_any_classes_the_one_with_the_most_votes_is_taken() -> None:
    answers = {"dog": (1, 1, 2), "tie": (0, 2, None), "nothing": (None, None, None)}
    labels = Labels.of_answers(
        ((task, str(worker), a) for task in answers for worker, a in enumerate(answers[task])),
        ("cat", "dog", "bird"),
    )
    result = majority(labels, Prior(), np.random.default_rng())
    assert isinstance(result, ClassEstimate)
    assert not result.is_probability
    assert result.score.tolist() == [[0, 2, 1], [1, 0, 1], [0, 0, 0]]
    assert result.prediction.tolist() == [1, TIE, TIE]
    # one right, one of two tied, one of three
    assert result.error(np.array([1, 0, 0])) == pytest.approx((0 + 1 / 2 + 2 / 3) / 3)
