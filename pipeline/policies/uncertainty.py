"""Uncertainty sampling (equation 2): the least certain task first."""

from collections.abc import Hashable, Sequence

from pipeline.policies.layout import Weights
from pipeline.policies.policy import Policy

GRID = 2.0**30  # steps in a unit of log-odds: finer than matters, coarser than rounding errors


class Uncertainty(Policy):
    """The open task with the smallest lead: for two classes, the one closest to probability 1/2.

    An assignment in flight counts as if it had already increased the lead by `expected_weight`, the
    weight log(α / β) of a new worker's label. Leads that differ only by rounding errors are equal;
    otherwise their order would depend on the order of additions.

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
