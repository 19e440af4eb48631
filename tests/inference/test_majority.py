import numpy as np

from pipeline.inference.algorithm import Prior
from pipeline.inference.labels import Labels
from pipeline.inference.majority import majority


def test_the_score_is_the_balance_of_the_votes_and_a_tie_is_a_tie() -> None:
    answers = {"yes": (1, 1, -1), "tie": (1, -1, 0), "no": (-1, -1, -1)}
    labels = Labels.of(
        (task, str(worker), label) for task in answers for worker, label in enumerate(answers[task])
    )
    result = majority(labels, Prior(q=0.9), np.random.default_rng())
    assert result.score.tolist() == [1, 0, -3]
    assert result.prediction.tolist() == [1, 0, -1]
    assert result.probability is None
    assert result.error(np.array([1, 1, 1])) == 0.5
