"""What a client raises: each says in one line what is wrong and what to do."""

from collections.abc import Sequence
from dataclasses import dataclass


class ClientError(Exception):
    """The pipeline did not do what it was asked for."""


class Unreachable(ClientError):
    """Nobody answers at the address, or what stands behind it is away."""


class NotAllowed(ClientError):
    """The token is missing or wrong; or Kafka does not let this user do it."""


class TimedOut(ClientError):
    """Something was expected of the pipeline, and did not come in time."""


@dataclass(frozen=True)
class LabelProblem:
    """What is wrong with one label of those that were given."""

    index: int
    reason: str


class BadLabels(ClientError):
    """Labels that cannot be used; none of the request that they were in was sent.

    >>> print(BadLabels([LabelProblem(3, "'task' is empty"), LabelProblem(7, "'task' is empty")]))
    label 3: 'task' is empty (and 1 more are bad)
    """

    def __init__(self, problems: Sequence[LabelProblem]) -> None:
        first, more = problems[0], len(problems) - 1
        others = f" (and {more} more are bad)" if more else ""
        super().__init__(f"label {first.index}: {first.reason}{others}")
        self.problems = list(problems)
