"""Uniform sampling (equation 1): every task gets the same number of labels."""

from collections.abc import Hashable, Sequence

from pipeline.policies.layout import Weights
from pipeline.policies.policy import Policy


class Uniform(Policy):
    """The open task with the fewest labels, including assignments in flight.

    >>> from pipeline.policies.answers import AnswerSet
    >>> policy = Uniform(["t1", "t2"], seed=1)
    >>> policy.update(0, labels=2, lead=0.0)
    >>> policy.update(1, labels=3, lead=0.0)
    >>> policy.choose(AnswerSet()), policy.choose(AnswerSet({0}))
    (0, 1)
    """

    def __init__(self, names: Sequence[Hashable], seed: int = 0) -> None:
        super().__init__(names, Weights(label=1.0, lead=0.0, in_flight=1.0), seed)
