"""The outcome of taking labels: votes, dead letters, forwarded records and counts."""

from collections import Counter
from collections.abc import Sequence
from enum import StrEnum
from typing import Generic, NamedTuple, Protocol, TypeVar

from pipeline.inference.engine.taking import ABSENT, ADDED, REPEATED, REPLACED, RETRACTED
from pipeline.inference.labels import Ints
from pipeline.records.answers import Answers, VotesFor, encode_answers
from pipeline.records.bad import BadRecord
from pipeline.records.many_votes import parse_votes
from pipeline.records.origin import Header
from pipeline.records.votes import NOTHING


class Record(Protocol):
    """The attributes of a consumed record, as in aiokafka."""

    topic: str
    offset: int
    timestamp: int
    value: bytes | None
    headers: Sequence[Header]


class Outcome(StrEnum):
    """The outcome of a label; also the value of a metric's label."""

    COUNTED = "counted"
    REPEATED = "repeated"
    SKIPPED = "skipped"
    RETRACTED = "retracted"
    REJECTED = "rejected"
    FORWARDED = "forwarded"
    FENCED = "fenced"  # taken before a crash or a rebalance, and consumed again


OUTCOMES = {
    ADDED: Outcome.COUNTED,
    REPLACED: Outcome.COUNTED,
    REPEATED: Outcome.REPEATED,
    RETRACTED: Outcome.RETRACTED,
    ABSENT: Outcome.SKIPPED,  # nothing to take back
}

R = TypeVar("R", bound=Record)


class Rejected(NamedTuple, Generic[R]):
    """A record for the dead letters."""

    record: R
    why: BadRecord


class Forwarded(NamedTuple, Generic[R]):
    """A record in another partition than that of its worker or task, and the right partition."""

    record: R
    key: str
    partition: int


class TakenLabel(NamedTuple):
    """A label that was taken; `answer` is a class, or a code as in votes."""

    task: str
    worker: str
    answer: int
    offset: int
    timestamp: int


class Taken(Generic[R]):
    """The result of labels of one partition: everything to publish before they are acknowledged."""

    def __init__(self) -> None:
        self.answers: list[Answers] = []  # a record for each
        self.labels = 0
        self.in_last = 0  # labels in the last of these records
        self.workers: list[Ints] = []
        self.rejected: list[Rejected[R]] = []
        self.forwarded: list[Forwarded[R]] = []
        self.outcomes: Counter[Outcome] = Counter()

    @property
    def votes(self) -> list[VotesFor]:
        """All votes, each with its partition of tasks."""
        return [vote for answers in self.answers for vote in answers.votes]

    def records(self) -> list[bytes]:
        """The values of the records for the answers topic."""
        last = len(self.answers) - 1
        return [
            encode_answers(answers._replace(more=number < last))
            for number, answers in enumerate(self.answers)
        ]

    def took(self, labels: int, most: int) -> Answers:
        """The record for so many more labels; a new one if they do not fit into the last."""
        if not self.answers or self.in_last + labels > most:
            self.answers.append(Answers([], [], []))
            self.in_last = 0
        self.in_last += labels
        self.labels += labels
        return self.answers[-1]


def labels_in(answers: Answers, classes: int) -> list[TakenLabel]:
    """The labels in a record of answers, in the order of their offsets."""
    found: list[TakenLabel] = []
    for _, value in answers.votes:
        votes = parse_votes(value, classes)
        columns = votes.answers, votes.offsets, votes.timestamps
        numbers = (column.tolist() for column in columns)
        found += map(TakenLabel, votes.tasks, votes.workers, *numbers)
    some = (label for label in found if label.answer != NOTHING)
    return sorted(some, key=lambda label: label.offset)
