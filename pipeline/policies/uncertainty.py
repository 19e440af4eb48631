"""Uncertainty sampling (equation 2): ask where we know least."""

from collections.abc import Hashable, Sequence

from pipeline.policies.order import Weights
from pipeline.policies.policy import Policy

GRID = 2.0**30  # steps in a unit of log-odds: far more than matter, far fewer than bits that round


class Uncertainty(Policy):
    """The open task with the smallest lead: of two classes, the one closest to probability 1/2.

    An assignment in flight counts as if it had already moved the lead by `expected_weight`,
    the weight log(α / β) of a stranger's label. Tasks that differ by rounding alone are equals:
    which of them had the smaller sum would depend on the order of additions.

    >>> from pipeline.policies.answers import AnswerSet
    >>> policy = Uncertainty(["t1", "t2"], seed=1, expected_weight=0.7)
    >>> policy.update(0, labels=2, lead=0.5)
    >>> policy.update(1, labels=2, lead=0.6)
    >>> policy.choose(AnswerSet())
    0
    >>> policy.update(0, labels=2, lead=0.5, in_flight=1)
    >>> policy.choose(AnswerSet())
    1
    """

    def __init__(
        self, names: Sequence[Hashable], seed: int = 0, expected_weight: float = 0.0
    ) -> None:
        weights = Weights(label=0.0, lead=GRID, in_flight=GRID * expected_weight)
        super().__init__(names, weights, seed)
