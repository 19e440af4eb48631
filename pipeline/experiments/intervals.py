"""Confidence intervals of a measured share."""

from statistics import NormalDist

CONFIDENCE = 0.99  # that of the error bars in the paper's Figure 1


def agresti_coull(share: float, trials: int, confidence: float = CONFIDENCE) -> tuple[float, float]:
    """The Agresti-Coull interval of a share of `trials`, cut to [0, 1].

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
