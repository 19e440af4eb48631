"""The outcome of taking labels, each once: votes, dead letters, forwarded records and counts."""

from collections import Counter
from collections.abc import Iterator, Sequence
from enum import StrEnum
from typing import Generic, NamedTuple, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from sbic.engine.compiled import kernel
from sbic.engine.labels import Ints
from sbic.engine.taking import ABSENT, ADDED, REPEATED, REPLACED, RETRACTED
from sbic.wire.bad import BadRecord
from sbic.wire.changelogs import Answers, encode_answers
from sbic.wire.dead_letters import Header
from sbic.wire.votes import NOTHING, parse_votes

# Which offsets of a labels partition have been counted: each counts once, in any order.
#
# The highest offset alone is not enough: a forged record with a later offset would prevent all
# labels before it from being counted.


CHUNK_BITS = 12
CHUNK = 1 << CHUNK_BITS


class CountedOffsets:
    """A set of offsets, with one bit for each.

    >>> counted = CountedOffsets()
    >>> counted.add(np.array([3, 5, 9000])).tolist()
    [True, True, True]
    >>> counted.add(np.array([4, 5, 9000])).tolist(), counted.last
    ([True, False, False], 9000)
    >>> counted.add(np.array([7, 6, 7])).tolist()
    [True, True, False]
    >>> 4 in counted, 8 in counted
    (True, False)
    """

    def __init__(self) -> None:
        self.last = -1
        self._chunks: dict[int, NDArray[np.uint8]] = {}

    def __contains__(self, offset: int) -> bool:
        bits = self._chunks.get(offset >> CHUNK_BITS)
        if bits is None:
            return False
        place = offset & (CHUNK - 1)
        return bool(bits[place >> 3] >> (7 - (place & 7)) & 1)

    def add(self, offsets: Ints) -> NDArray[np.bool_]:
        """Add offsets; return which of them are new, only the first of duplicates."""
        new = np.empty(len(offsets), np.bool_)
        done = 0
        while done < len(offsets):
            number = int(offsets[done]) >> CHUNK_BITS
            bits = self._chunks.get(number)
            if bits is None:
                bits = self._chunks[number] = np.zeros(CHUNK >> 3, np.uint8)
            done, last = _mark(bits, number, offsets, new, done)
            self.last = max(self.last, last)
        return new


@kernel
def _mark(
    bits: NDArray[np.uint8], number: int, offsets: Ints, new: NDArray[np.bool_], start: int
) -> tuple[int, int]:
    """Mark offsets from `start` on, up to the first of another chunk; return it and the highest."""
    last = -1
    for place in range(start, len(offsets)):
        offset = offsets[place]
        if offset >> CHUNK_BITS != number:
            return place, last
        byte, bit = (offset & (CHUNK - 1)) >> 3, np.uint8(128 >> (offset & 7))
        new[place] = not bits[byte] & bit
        bits[byte] |= bit
        last = max(last, offset)
    return len(offsets), last


class ConsumedRecord(Protocol):
    """The attributes of a consumed record, as in aiokafka."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    key: bytes | None
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

R = TypeVar("R", bound=ConsumedRecord)


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
        """Yield the values of the records for the answers topic, by partition."""
        for partition, records in self.answers.items():
            *earlier, last = records
            values = [encode_answers(answers._replace(more=True)) for answers in earlier]
            yield partition, [*values, encode_answers(last)]

    def begin(self, partition: int, labels: int, most: int) -> None:
        """Begin a new record if this many more labels of a partition do not fit into its last."""
        records = self.answers.setdefault(partition, [])
        if not records or self.in_last[partition] + labels > most:
            records.append(Answers([], [], [], drifting={}))
            self.in_last[partition] = 0
        self.in_last[partition] += labels


def labels_in(answers: Answers, classes: int) -> list[TakenLabel]:
    """Return the labels in a record of answers, in the order of their offsets."""
    found: list[TakenLabel] = []
    for _, value in answers.votes:
        votes = parse_votes(value, classes)
        columns = votes.answers, votes.offsets, votes.timestamps
        numbers = (column.tolist() for column in columns)
        found += map(TakenLabel, votes.tasks, votes.workers, *numbers)
    some = (label for label in found if label.answer != NOTHING)
    return sorted(some, key=lambda label: label.offset)
