"""How many dead letters there are, by reason; one that a crash wrote twice counts once."""

from collections import Counter
from collections.abc import Iterable

from aiokafka import ConsumerRecord

from pipeline.records.origin import Origin
from pipeline.transfer.dead_letters import Letter, letter_of


class LetterCounts:
    """Counts the records of the dead-letter topic.

    `replayed` is how many letters were replayed; these are counted by reason as well.
    """

    def __init__(self) -> None:
        self._reasons: dict[Origin, str] = {}  # the reason of each letter
        self._counts: Counter[str] = Counter()
        self._replayed: set[Origin] = set()

    def take(self, records: Iterable[ConsumerRecord]) -> None:
        """Count records of the topic, each partition's in order."""
        for record in records:
            if letter := letter_of(record):
                self.add(letter)

    def add(self, letter: Letter) -> None:
        """Count a letter, or the mark of one that was replayed."""
        origin, reason = letter.headers.origin, letter.headers.reason
        if letter.headers.is_replayed:
            self._replayed.add(origin)
        elif self._reasons.get(origin) != reason:
            if origin in self._reasons:
                self._counts[self._reasons[origin]] -= 1
            self._reasons[origin] = reason
            self._counts[reason] += 1

    @property
    def by_reason(self) -> dict[str, int]:
        """The number of letters by reason, the most frequent first."""
        return {reason: count for reason, count in self._counts.most_common() if count}

    @property
    def replayed(self) -> int:
        """How many letters were replayed."""
        return len(self._replayed)
