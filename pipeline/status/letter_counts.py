"""How many dead letters there are, by reason: each once, however often a crash wrote it."""

from collections import Counter
from collections.abc import Iterable

from aiokafka import ConsumerRecord

from pipeline.status.report import Summary
from pipeline.transfer.dead_letters import letter_of


class LetterCounts:
    """Follows the dead letters topic."""

    def __init__(self) -> None:
        self._reasons: dict[object, str] = {}  # of each, by origin
        self._counts: Counter[str] = Counter()
        self._replayed: set[object] = set()

    def take(self, records: Iterable[ConsumerRecord]) -> None:
        """Take records, each partition's in order."""
        for record in records:
            letter = letter_of(record)
            if letter is None:
                continue
            origin, reason = letter.said.origin, letter.said.reason
            if letter.said.is_replayed:
                self._replayed.add(origin)
            elif self._reasons.get(origin) != reason:
                if origin in self._reasons:
                    self._counts[self._reasons[origin]] -= 1
                self._reasons[origin] = reason
                self._counts[reason] += 1

    def tell(self, summary: Summary) -> None:
        """Put the counts into the summary, the most frequent reason first."""
        summary.dead_letters = {reason: n for reason, n in self._counts.most_common() if n}
        summary.replayed = len(self._replayed)
