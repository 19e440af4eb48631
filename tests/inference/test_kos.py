import numpy as np
import pytest

from sbic.engine.labels import Floats, Labels, Prior
from sbic.research.baselines import kos


def crowd(seed: int) -> tuple[Labels, Floats]:
    """A sparse crowd of fair workers, and its task-worker matrix."""
    rng = np.random.default_rng(seed)
    right = np.where(rng.random((40, 12)) < 0.8, 1, -1)
    matrix = np.where(rng.random((40, 12)) < 0.6, right, 0)
    labels = Labels.of(
        (f"{i}", f"{j}", int(x)) for (i, j), x in np.ndenumerate(matrix)
    )  # 0 keeps the numbering
    return labels, matrix.astype(np.float64)


@pytest.mark.parametrize("seed", range(3))
def test_the_score_becomes_the_leading_singular_vector(seed: int) -> None:
    labels, matrix = crowd(seed)
    left, _, _ = np.linalg.svd(matrix)
    leading = left[:, 0] * np.sign(left[:, 0] @ matrix.sum(axis=1))
    score = kos(labels, Prior(), np.random.default_rng(), iterations=2000).score
    np.testing.assert_allclose(score, leading, atol=1e-9)


def test_five_iterations_are_five_multiplications_by_the_matrix_and_its_transpose() -> None:
    labels, matrix = crowd(9)
    expected = np.linalg.matrix_power(matrix @ matrix.T, 5) @ matrix.sum(axis=1)
    result = kos(labels, Prior(), np.random.default_rng(), iterations=5)
    np.testing.assert_allclose(result.score, expected / np.linalg.norm(expected), rtol=1e-9)
    assert not result.is_log_odds


def test_a_crowd_without_a_majority_anywhere_is_all_ties() -> None:
    labels = Labels.of([("t1", "ann", 1), ("t1", "bob", -1)])
    assert kos(labels, Prior(), np.random.default_rng()).score.tolist() == [0]
