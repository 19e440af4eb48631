"""Intervals: of many Beta distributions at once, and of a measured share."""

from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from sbic.engine.labels import Floats, Ints

# The central 95 % interval of many Beta distributions at once.
#
# A Beta(a, b) variable is the sigmoid of a variable t with the log-density (up to a constant)
#
#     g(t) = a log sig(t) + b log sig(-t) = -(a + b) log(1 + exp(-t)) - b t
#
# which is concave and smooth, with its mode at log(a / b) and exponential tails. On an even grid of
# t the trapezoidal rule with its first two end corrections (Euler and Maclaurin) gives the
# distribution function, and from the nearest node a Taylor polynomial leads to the quantile.


NODES = np.arange(128.0)
FALL = 20.0  # exp(-20) of the density at the mode is negligible
FAR = 18.0  # sig(-18) is 1.5e-8: beyond, the tail is an exponential
TAILS = np.array([[0.025], [0.975]])


def beta_interval(a: Floats, b: Floats) -> Floats:
    """Return the 2.5 % and 97.5 % quantiles of each Beta(a, b): two rows, exact to 1e-6.

    >>> beta_interval(np.array([1.0, 20.0]), np.array([1.0, 10.0])).round(6).tolist()
    [[0.025, 0.491677], [0.975, 0.820616]]
    """
    n = a + b
    mode = np.log(a / b)
    width = 6.5 * np.sqrt(n / (a * b))
    low = np.maximum(mode - width - FALL / a, np.minimum(mode, 0) - FAR)
    high = np.minimum(mode + width + FALL / b, np.maximum(mode, 0) + FAR)
    step = (high - low) / NODES[-1]
    log_peak = -n * np.log1p(b / a) - b * mode
    t = low[:, None] + step[:, None] * NODES
    f = np.exp(-n[:, None] * np.log(1 + np.exp(-t)) - b[:, None] * t - log_peak[:, None])
    sums = np.cumsum(f, axis=1)
    first, last = f[:, 0], f[:, -1]
    left, right = first / a, last / b  # the tails beyond the grid
    edge = _correction(low, first, a, n, step) - left
    inside = step * (sums[:, -1] - (first + last) / 2) + _correction(high, last, a, n, step) - edge
    missing = TAILS * (inside + right) + edge  # target of the plain sum, before its correction
    rough = missing / step + first / 2
    node = np.stack([(sums < up_to[:, None]).sum(axis=1) for up_to in rough])
    node = np.minimum(node, len(NODES) - 1)
    rows = np.arange(len(t))
    at, here = t[rows, node], f[rows, node]
    so_far = step * (sums[rows, node] - (first + here) / 2) + _correction(at, here, a, n, step)
    at += np.clip(_way(missing - so_far, at, here, a, n), -step, step)
    result: Floats = 1 / (1 + np.exp(-at))
    return result


def accuracy_intervals(given: Floats, accuracy: Floats, prior_labels: float) -> Floats:
    """Return the 95 % intervals of workers' accuracies: the lower ends, and the upper ends.

    All at once: computed one by one, they would cost more than the rest of a label.
    """
    labels = given + prior_labels
    right = accuracy * labels
    return beta_interval(np.maximum(right, 1e-9), np.maximum(labels - right, 1e-9))


def _slopes(t: Floats, f: Floats, a: Floats, n: Floats) -> tuple[Floats, Floats, Floats]:
    """Return the first three derivatives of the density at t, where its value is f."""
    s = 1 / (1 + np.exp(-t))
    g1 = a - n * s
    g2 = -n * s * (1 - s)
    g3 = g2 * (1 - 2 * s)
    return f * g1, f * (g1**2 + g2), f * (g1**3 + 3 * g1 * g2 + g3)


def _correction(t: Floats, f: Floats, a: Floats, n: Floats, step: Floats) -> Floats:
    """Return the Euler-Maclaurin correction of the trapezoidal rule at one end."""
    f1, _, f3 = _slopes(t, f, a, n)
    return step**4 / 720 * f3 - step**2 / 12 * f1


def _way(target: Floats, t: Floats, f: Floats, a: Floats, n: Floats) -> Floats:
    """Get the step from t by which the integral grows by the target: Newton on its polynomial."""
    f1, f2, f3 = _slopes(t, f, a, n)
    d = target / f
    for _ in range(3):
        value = d * (f + d * (f1 / 2 + d * (f2 / 6 + d * f3 / 24)))
        slope = f + d * (f1 + d * (f2 / 2 + d * f3 / 6))
        d = d - (value - target) / slope
    return d


# Confidence intervals of a measured share.


CONFIDENCE = 0.99  # that of the error bars in the paper's Figure 1


def agresti_coull(share: float, trials: int, confidence: float = CONFIDENCE) -> tuple[float, float]:
    """Return the Agresti-Coull interval of a share of `trials`, cut to [0, 1].

    With z the normal quantile of the confidence: as if z² more trials were split half and half.
    Brown, Cai, DasGupta: *Interval Estimation for a Binomial Proportion*, Statistical Science 2001.

    >>> low, high = agresti_coull(0.1, 1000, confidence=0.95)
    >>> round(low, 4), round(high, 4)
    (0.0828, 0.1202)
    """
    z = NormalDist().inv_cdf((1 + confidence) / 2)
    more = trials + z * z
    centre = (share * trials + z * z / 2) / more
    reach = z * (centre * (1 - centre) / more) ** 0.5
    return max(0.0, centre - reach), min(1.0, centre + reach)


def wilson(right: float, trials: float, confidence: float = 0.95) -> tuple[float, float]:
    """Return the Wilson interval of a share.

    >>> low, high = wilson(26, 30)
    >>> round(low, 4), round(high, 4)
    (0.7032, 0.9469)
    """
    z = NormalDist().inv_cdf((1 + confidence) / 2)
    more = trials + z * z
    centre = (right + z * z / 2) / more
    reach = z / more * (right * (trials - right) / trials + z * z / 4) ** 0.5
    return max(0.0, centre - reach), min(1.0, centre + reach)


BEYOND_CHANCE = 3.0  # standard errors


def contradicts(low: Floats, high: Floats, right: Ints, trials: Ints) -> NDArray[np.bool_]:
    """Whether measured shares are farther from intervals than chance explains; not without trials.

    From the nearer end of its interval, a share has to be more than three standard errors away, of
    the share that this end would be.

    >>> low, high = np.array([0.9, 0.9, 0.9]), np.array([0.96, 0.96, 0.96])
    >>> contradicts(low, high, np.array([24, 18, 0]), np.array([30, 30, 0])).tolist()
    [False, True, False]
    """
    share = right / np.maximum(trials, 1)
    end = np.clip(share, low, high)
    off = np.abs(share - end)
    is_far: NDArray[np.bool_] = off > BEYOND_CHANCE * np.sqrt(
        end * (1 - end) / np.maximum(trials, 1)
    )
    return is_far & (trials > 0)
