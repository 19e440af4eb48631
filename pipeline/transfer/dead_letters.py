"""Reads dead letters: each once, even if a crash wrote it twice, newest first."""

from collections import Counter
from collections.abc import AsyncIterator, Collection
from dataclasses import dataclass, field
from heapq import heappush, heappushpop
from typing import NamedTuple

from aiokafka import ConsumerRecord

from pipeline.kafka.reading import reading
from pipeline.progress import progress
from pipeline.records.dead_letter_headers import LetterHeaders, read_headers
from pipeline.records.origin import Origin
from pipeline.settings import Settings
from pipeline.topics import Topics


class Letter(NamedTuple):
    """A dead letter; `at` is its timestamp in milliseconds, `partition` its own partition."""

    at: int
    headers: LetterHeaders
    partition: int
    key: bytes | None
    value: bytes | None


@dataclass(frozen=True)
class Choice:
    """A selection of dead letters; empty fields select all."""

    reasons: Collection[str] = ()
    origins: Collection[Origin] = ()
    limit: int | None = None

    def has(self, headers: LetterHeaders) -> bool:
        """Whether a letter is selected, without regard to the limit."""
        return (not self.reasons or headers.reason in self.reasons) and (
            not self.origins or headers.origin in self.origins
        )


@dataclass
class Overview:
    """The dead letters of the topic: the newest of those selected, counts, and those replayed.

    `newest` has no keys and values unless they were requested.
    """

    newest: list[Letter] = field(default_factory=list)
    chosen: int = 0
    reasons: Counter[str] = field(default_factory=Counter)  # of all letters
    replayed: set[Origin] = field(default_factory=set)


async def letters_in(settings: Settings) -> AsyncIterator[list[Letter]]:
    """All letters and replay marks in the topic now, in the order of the partitions."""
    topic = Topics(settings).dead_letters.name
    async with reading(settings, topic, from_start=True) as reader:
        with progress("Reading", total=sum(reader.ends.values())) as advance:
            async for records in reader.to_the_end():
                found = [letter for record in records if (letter := letter_of(record))]
                yield found
                advance(len(records))


def letter_of(record: ConsumerRecord) -> Letter | None:
    """The letter in a record, or None if it is not an sbic record."""
    headers = read_headers(record.headers)
    if headers is None:
        return None
    return Letter(record.timestamp, headers, record.partition, record.key, record.value)


async def overview(settings: Settings, choice: Choice, *, values: bool) -> Overview:
    """Read the whole topic; with `values`, keep keys and values of the selected letters."""
    found = Overview()
    seen: set[Origin] = set()
    heap: list[tuple[int, int, Letter]] = []
    async for letters in letters_in(settings):
        for letter in letters:
            origin = letter.headers.origin
            if letter.headers.is_replayed:
                found.replayed.add(origin)
                continue
            if origin in seen:
                continue
            seen.add(origin)
            found.reasons[letter.headers.reason] += 1
            if not choice.has(letter.headers):
                continue
            found.chosen += 1
            kept = letter if values else letter._replace(key=None, value=None)
            entry = (letter.at, found.chosen, kept)
            if choice.limit is None or len(heap) < choice.limit:
                heappush(heap, entry)
            else:
                heappushpop(heap, entry)
    found.newest = [letter for _, _, letter in sorted(heap, reverse=True)]
    return found
