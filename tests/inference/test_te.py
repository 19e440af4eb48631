from itertools import combinations

import numpy as np
import pytest

from sbic.engine.labels import Floats, Labels, Prior
from sbic.research.triangular import reliabilities, te


def literal(matrix: Floats) -> Floats:
    """Algorithm TE of Bonald and Combes on a matrix of workers by tasks."""
    workers = len(matrix)
    shared = np.abs(matrix) @ np.abs(matrix).T
    c = (matrix @ matrix.T) / np.maximum(shared, 1)
    size = np.zeros(workers)
    for k in range(workers):
        pairs = combinations([w for w in range(workers) if w != k], 2)
        i, j = max(pairs, key=lambda pair: abs(c[pair]))
        if c[i, j] != 0:
            size[k] = np.sqrt(abs(c[i, k] * c[j, k] / c[i, j]))
    sums = [size[k] ** 2 + sum(c[i, k] for i in range(workers) if i != k) for k in range(workers)]
    best = int(np.argmax(np.abs(sums)))
    theta = np.zeros(workers)
    theta[best] = np.sign(sums[best]) * size[best]
    for k in range(workers):
        if k != best:
            theta[k] = size[k] * np.sign(sums[best]) * np.sign(c[k, best])
    return theta


def labels_of(matrix: Floats) -> Labels:
    """Numbered like the rows and columns: a 0 of the matrix is a skip."""
    return Labels.of((f"{t}", f"{w}", int(x)) for (w, t), x in np.ndenumerate(matrix))


@pytest.mark.parametrize("density", [1.0, 0.5, 0.1])
@pytest.mark.parametrize("seed", range(5))
def test_it_is_the_algorithm_written_out(seed: int, density: float) -> None:
    rng = np.random.default_rng(seed)
    right = np.where(rng.random((8, 30)) < rng.uniform(0.3, 0.95, (8, 1)), 1.0, -1.0)
    matrix = np.where(rng.random((8, 30)) < density, right, 0)
    np.testing.assert_allclose(reliabilities(labels_of(matrix)), literal(matrix), rtol=1e-9)


def test_a_worker_who_contradicts_two_who_agree_is_unreliable() -> None:
    matrix = np.array([[1, 1, -1, -1], [1, 1, -1, -1], [-1, -1, 1, -1]], dtype=np.float64)
    # C_12 = 1, C_13 = C_23 = -1/2: θ_1 = θ_2 = 1, θ_3 = -1/2, by hand
    np.testing.assert_allclose(reliabilities(labels_of(matrix)), [1, 1, -0.5])
    result = te(labels_of(matrix), Prior(), np.random.default_rng())
    assert result.prediction.tolist() == [1, 1, -1, -1]
    assert np.isfinite(result.score).all()
    assert not result.is_log_odds


@pytest.mark.parametrize("workers", [1, 2])
def test_without_a_triangle_everything_is_a_tie(workers: int) -> None:
    matrix = np.ones((workers, 3))
    assert te(labels_of(matrix), Prior(), np.random.default_rng()).score.tolist() == [0, 0, 0]


def test_of_equal_pairs_the_first_in_the_file_counts() -> None:
    # ann and bob agree on all, bob and cy do, ann and cy never meet; dan meets ann and bob only
    answers = {"ann": "++0++0", "bob": "++++++", "cy": "00+00+", "dan": "+-0+-0"}
    value = {"+": 1, "-": -1, "0": 0}
    labels = Labels.of((f"{t}", w, value[x]) for w in answers for t, x in enumerate(answers[w]))
    matrix = np.array([[value[x] for x in row] for row in answers.values()], dtype=np.float64)
    np.testing.assert_allclose(reliabilities(labels), literal(matrix))
