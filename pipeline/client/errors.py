"""Errors of the client; each message says in one line what is wrong and what to do."""

from collections.abc import Sequence
from dataclasses import dataclass


class ClientError(Exception):
    """A request to the pipeline failed."""


class Unreachable(ClientError):
    """Nothing answers at the address, or the gateway has no Kafka."""


class NotAllowed(ClientError):
    """The token is missing or wrong, or this user is not authorized in Kafka."""


class TimedOut(ClientError):
    """The pipeline did not answer in time."""


@dataclass(frozen=True)
class LabelProblem:
    """What is wrong with one of the labels given."""

    index: int
    reason: str


class BadLabels(ClientError):
    """Invalid labels; no label of the same request was sent.

    >>> print(BadLabels([LabelProblem(3, "'task' is empty"), LabelProblem(7, "'task' is empty")]))
    label 3: 'task' is empty (and 1 more are bad)
    """

    def __init__(self, problems: Sequence[LabelProblem]) -> None:
        first, more = problems[0], len(problems) - 1
        others = f" (and {more} more are bad)" if more else ""
        super().__init__(f"label {first.index}: {first.reason}{others}")
        self.problems = list(problems)
