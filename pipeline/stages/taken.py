"""The outcome of taking labels: votes, dead letters, forwarded records and counts."""

from collections import Counter
from collections.abc import Iterator, Sequence
from enum import StrEnum
from typing import Generic, NamedTuple, Protocol, TypeVar

from pipeline.inference.engine.taking import ABSENT, ADDED, REPEATED, REPLACED, RETRACTED
from pipeline.inference.labels import Ints
from pipeline.records.answers import Answers, encode_answers
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


class TakenVotes(NamedTuple):
    """An encoded record of votes.

    Its labels are at `offsets` of the partition `source`, and its tasks in the partition `home`.
    """

    source: int
    home: int
    value: bytes
    offsets: Ints


class Taken(Generic[R]):
    """The result of labels: everything to publish before they are acknowledged."""

    def __init__(self) -> None:
        self.answers: dict[int, list[Answers]] = {}  # by partition, with one or more records
        self.votes: list[TakenVotes] = []  # all that are in the answers
        self.in_last: dict[int, int] = {}  # labels in the last record of each partition
        self.workers: list[Ints] = []
        self.rejected: list[Rejected[R]] = []
        self.forwarded: list[Forwarded[R]] = []
        self.outcomes: Counter[Outcome] = Counter()

    def records(self) -> Iterator[tuple[int, list[bytes]]]:
        """The values of the records for the answers topic, by partition."""
        for partition, records in self.answers.items():
            *earlier, last = records
            values = [encode_answers(answers._replace(more=True)) for answers in earlier]
            yield partition, [*values, encode_answers(last)]

    def begin(self, partition: int, labels: int, most: int) -> None:
        """Begin a new record if so many more labels of a partition do not fit into its last."""
        records = self.answers.setdefault(partition, [])
        if not records or self.in_last[partition] + labels > most:
            records.append(Answers([], [], []))
            self.in_last[partition] = 0
        self.in_last[partition] += labels


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
