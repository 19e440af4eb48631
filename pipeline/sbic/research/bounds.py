"""How fast the error of SBIC falls with the number of labels per task (Theorems 1 and 2).

For workers of accuracy Beta(α, β) who give L labels each, R labels per task, and up to a factor
that does not depend on R, the probability of a wrong prediction is at most

    F(L, α, β) ** R           under the uniform policy (Theorem 1)
    exp(-R G(L, α, β))        under the uncertainty policy (Theorem 2)

As printed, the exponent of Theorem 1 is -R log F, which grows with R since F is below 1. The proof
shows F to the power R.

A worker with n = L - 1 other labels, k of them right, has the estimated accuracy p_k:

    P(k) = C(n, k) B(k + α, n - k + β) / B(α, β)        p_k = (k + α) / (n + α + β)
    F_sorted = Σ P(k) 2 √(p_k (1 - p_k))
    G_sorted = Σ P(k) log(p_k / (1 - p_k)) (2 p_k - 1)

Fast SBIC estimates the worker of a label from the 0 to L - 1 labels that came before it: F_fast and
G_fast are the means of F_sorted and G_sorted over 1 to L labels.
"""

from dataclasses import dataclass

import numpy as np

from sbic.engine.labels import Floats, Prior


@dataclass(frozen=True)
class Bounds:
    """F and G of both variants."""

    f_fast: float
    f_sorted: float
    g_fast: float
    g_sorted: float


def bounds(labels_per_worker: int, prior: Prior) -> Bounds:
    """F and G for workers who give this many labels each.

    >>> crowd = bounds(10, Prior(alpha=4, beta=3))
    >>> round(crowd.f_sorted, 10), round(crowd.g_sorted, 10)
    (0.9527049329, 0.1932211384)
    """
    if labels_per_worker < 1:
        raise ValueError(f"a worker must give at least 1 label, not {labels_per_worker}")
    alpha, beta = prior.alpha, prior.beta
    orders = _log_gamma_ratio(1.0, labels_per_worker)
    rights = _log_gamma_ratio(alpha, labels_per_worker)
    wrongs = _log_gamma_ratio(beta, labels_per_worker)
    labels = _log_gamma_ratio(alpha + beta, labels_per_worker)

    f, g = [], []
    for n in range(labels_per_worker):
        k = np.arange(n + 1)
        choices = orders[n] - orders[k] - orders[n - k]
        probability = np.exp(choices + rights[k] + wrongs[n - k] - labels[n])
        right = (k + alpha) / (n + alpha + beta)
        wrong = (n - k + beta) / (n + alpha + beta)
        f.append(float(probability @ (2 * np.sqrt(right * wrong))))
        weight = np.log(k + alpha) - np.log(n - k + beta)
        g.append(float(probability @ (weight * (right - wrong))))
    return Bounds(float(np.mean(f)), f[-1], float(np.mean(g)), g[-1])


def _log_gamma_ratio(x: float, size: int) -> Floats:
    """log Γ(x + k) - log Γ(x) for k = 0 to size - 1.

    Summed from log(x + i): for a large x the difference of two log-gammas has no digits left.
    """
    return np.concatenate(([0.0], np.cumsum(np.log(x + np.arange(size - 1)))))
