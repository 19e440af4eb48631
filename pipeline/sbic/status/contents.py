"""What topics contain: dead letters, labels that stand, the last record of each key."""

from array import array
from collections import Counter
from collections.abc import (
    AsyncIterator,
    Callable,
    Collection,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from dataclasses import dataclass, field
from heapq import heappush, heappushpop
from itertools import islice
from typing import Any, Literal, NamedTuple

import numpy as np
from aiokafka import ConsumerRecord
from orjson import loads

from sbic.classes import SKIP, Classes
from sbic.engine.engine import Engine
from sbic.engine.labels import Ids
from sbic.engine.state import StandingLabels
from sbic.kafka.reader import keep_last, parsed, readable, reading
from sbic.project.settings import Settings
from sbic.project.topics import Topic, Topics
from sbic.wire.dead_letters import LetterHeaders, Origin, read_headers
from sbic.wire.labels import label_parser
from sbic.wire.partitions import partition_of
from sbic.wire.posteriors import posterior_parser
from sbic.wire.rendering import rendering_of
from sbic.wire.workers import read_worker


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
class LetterOverview:
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
        async for records in reader.to_the_end("Reading"):
            yield [letter for record in records if (letter := letter_of(record))]


def letter_of(record: ConsumerRecord) -> Letter | None:
    """Return the letter in a record, or None if it is not an sbic record."""
    headers = read_headers(record.headers)
    if headers is None:
        return None
    return Letter(record.timestamp, headers, record.partition, record.key, record.value)


async def overview(settings: Settings, choice: Choice, *, values: bool) -> LetterOverview:
    """Read the whole topic; with `values`, keep keys and values of the selected letters."""
    found = LetterOverview()
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


# Which labels of the labels topic stand, decided as an instance decides.
#
# The same parser and the same engine as in an instance deal with repeated answers, answers taken
# back, skips, bad labels, and labels in another partition than their worker's (these stand in the
# partition they are forwarded to).


TASKS_AT_ONCE = 10_000


class Answer(NamedTuple):
    """A worker's label on a task, as it is on the wire."""

    worker: str
    label: int | str


class Standing:
    """The labels that stand so far: about 40 bytes for each, and the ids once.

    `anywhere`: labels stand in any partition, not only in their worker's.
    """

    def __init__(
        self,
        classes: Classes,
        partitions: int,
        repeats: Literal["first", "last"] = "first",
        *,
        anywhere: bool = False,
    ) -> None:
        self.anywhere = anywhere
        self.classes = classes
        self.partitions = partitions
        self.replaces = repeats == "last"
        self.tasks = Ids[str]()
        self.workers = Ids[str]()
        self._homes: list[int] = []  # the partition of each worker
        self._given: list[array[int]] = []  # the tasks of each worker's answers, in order
        self.skips = array("q")
        """How many skips of each worker have been read."""
        self._parse = label_parser(classes)
        self._engine = Engine("settled", classes=len(classes), class_prior="uniform")

    def take(self, records: Iterable[ConsumerRecord]) -> None:
        """Process records of the labels topic, each partition's in order."""
        rows = []
        for record, (task, worker, answer) in parsed(records, self._parse):
            is_here = self._home(worker) == record.partition or self.anywhere
            if answer == SKIP and is_here:
                self.skips[self.workers.number(worker)] += 1
            elif is_here:
                i, j = self.tasks.number(task), self.workers.number(worker)
                rows.append((i, j, answer))
                self._given[j].append(i)
        if rows:
            tasks, workers, answers = np.array(rows, np.int64).T
            self._engine.take(tasks, workers, answers, replaces=self.replaces)

    def _home(self, worker: str) -> int:
        number = self.workers.number(worker)
        if number == len(self._homes):
            self._homes.append(partition_of(worker.encode(), self.partitions))
            self._given.append(array("q"))
            self.skips.append(0)
        return self._homes[number]

    def __len__(self) -> int:
        return self._engine.labels_here

    def answers_to(self, task: str) -> list[Answer]:
        """Return the labels of a task that stand, in their order."""
        number = self.tasks.known(task)
        if number is None:
            return []
        _, workers, answers = self._engine.labels_of([number])
        return [
            Answer(self.workers.names[j], self.classes.labels[answer])
            for j, answer in zip(workers.tolist(), answers.tolist(), strict=True)
        ]

    def given_by(self, worker: str, most: int) -> list[tuple[str, int | str]]:
        """Return the standing labels of a worker, of the last `most` tasks, newest first."""
        number = self.workers.known(worker)
        if number is None:
            return []
        last = list(islice(dict.fromkeys(reversed(self._given[number])), most))
        columns = (column.tolist() for column in self._engine.labels_of(last))
        return [
            (self.tasks.names[i], self.classes.labels[answer])
            for i, j, answer in zip(*columns, strict=True)
            if j == number
        ]

    def columns(self) -> Iterator[StandingLabels]:
        """All labels that stand in numbers, some tasks at a time, in the order of their first."""
        for first in range(0, len(self.tasks), TASKS_AT_ONCE):
            tasks = np.arange(first, min(first + TASKS_AT_ONCE, len(self.tasks)))
            yield self._engine.labels_of(tasks)

    def __iter__(self) -> Iterator[tuple[str, str, int | str]]:
        """All labels that stand as task, worker and label."""
        for some in self.columns():
            for i, j, answer in zip(*(column.tolist() for column in some), strict=True):
                label = self.classes.labels[answer]
                yield self.tasks.names[i], self.workers.names[j], label


async def standing_labels(settings: Settings) -> Standing:
    """Return the labels that stand of all that the topic has now."""
    async with reading(settings, Topics(settings).labels.name, from_start=True) as reader:
        partitions = min(len(reader.partitions), settings.partitions)
        # instances stop when labels come to partitions that somebody has added: none is forwarded
        added = [tp for tp in reader.partitions if tp.partition >= partitions]
        begins = await reader.consumer.beginning_offsets(added) if added else {}
        anywhere = any(reader.ends[tp] > begins[tp] for tp in added)
        found = Standing(settings.crowd_classes, partitions, settings.repeats, anywhere=anywhere)
        async for records in reader.to_the_end("Reading"):
            found.take(records)
    return found


def compile_engine() -> None:
    """Compile or load the engine of `Standing`; compiling takes seconds the first time."""
    engine = Engine("settled", classes=2, class_prior="uniform")
    engine.take(np.array([0]), np.array([0]), np.array([1]), replaces=True)
    engine.labels_of([0])


# The current state of a compacted topic, the last record of every key, as a table.


Records = Sequence[Mapping[str, Any]]


class ExportTable(NamedTuple):
    """The columns, and a row for each record."""

    columns: tuple[str, ...]
    rows: list[list[object]]


class Export(NamedTuple):
    """An export: the topic, what checks its records, and the table of them."""

    topic: Callable[[Topics], Topic]
    parser: Callable[[Classes], Callable[[bytes], object]]
    table: Callable[[Classes, Records], ExportTable]


def posteriors_table(classes: Classes, posteriors: Records) -> ExportTable:
    """Posteriors, with a column for each class where there are more than two numbers.

    >>> cat = {"task": "t1", "prediction": "cat", "confidence": 0.75, "labels": 1, "status": "open"}
    >>> cat["probabilities"] = {"cat": 0.75, "dog": 0.25}
    >>> table = posteriors_table(Classes.parse("cat,dog"), [cat])
    >>> table.columns[:7]
    ('task', 'prediction', 'confidence', 'p:cat', 'p:dog', 'labels', 'status')
    >>> table.rows[0][:7]
    ['t1', 'cat', 0.75, 0.75, 0.25, 1, 'open']
    """
    form = rendering_of(classes)
    fields = ("task", *form.fields, *STATE_FIELDS, "evidence", "prior", *LAST_FIELDS)
    return _table(posteriors, fields, form.by_class)


def workers_table(_classes: Classes, workers: Records) -> ExportTable:
    """Workers, with `theta` and a column `habit:CLASS` for each class if they are known.

    >>> ann = {"worker": "ann", "accuracy": 0.75, "interval": [0.5, 0.9], "theta": 0.5}
    >>> ann["habits"] = {"cat": 0.3, "dog": 0.7}
    >>> table = workers_table(Classes.parse("cat,dog"), [ann])
    >>> table.columns[-4:]
    ('last_seen', 'theta', 'habit:cat', 'habit:dog')
    >>> table.rows[0][:4]
    ['ann', 0.75, 0.5, 0.9]
    """
    flat = [
        {**worker, "interval_low": worker["interval"][0], "interval_high": worker["interval"][1]}
        for worker in workers
    ]
    is_settled = any("theta" in worker for worker in workers)
    return _table(flat, (*WORKER_FIELDS, *(("theta", "habits") if is_settled else ())), ("habits",))


def _table(records: Records, fields: Sequence[str], by_class: Sequence[str]) -> ExportTable:
    """Make columns of fields; of one with a value for each class, a column `word:CLASS` each."""
    names: list[str] = []
    paths: list[tuple[str, str | None]] = []  # the field, and the class in it
    for each in fields:
        if each not in by_class:
            names.append(each)
            paths.append((each, None))
            continue
        classes = dict.fromkeys(name for record in records for name in record.get(each, ()))
        names += [f"{WORDS.get(each, each)}:{name}" for name in classes]
        paths += [(each, name) for name in classes]
    rows: list[list[object]] = [
        [
            record.get(each) if name is None else record.get(each, {}).get(name)
            for each, name in paths
        ]
        for record in records
    ]
    return ExportTable(tuple(names), rows)


STATE_FIELDS = ("labels", "status", "reason", "reopened", "gold")
LAST_FIELDS = ("sources", "updated_at")
WORKER_FIELDS = (
    *("worker", "accuracy", "interval_low", "interval_high", "labels", "correct"),
    *("gold", "gold_right", "last_seen"),
)
WORDS = {"probabilities": "p", "habits": "habit"}

# the types of columns that may be empty
KINDS: dict[str, type[bool] | type[int] | type[float]] = {
    **dict.fromkeys(("log_odds", "probability", "confidence", "p", "evidence", "prior"), float),
    **dict.fromkeys(("accuracy", "interval_low", "interval_high", "correct", "theta"), float),
    **dict.fromkeys(("labels", "updated_at", "gold_right", "last_seen"), int),
    **dict.fromkeys(("reopened", "gold"), bool),
    "habit": float,
}

EXPORTS = {
    "posteriors": Export(lambda topics: topics.posteriors, posterior_parser, posteriors_table),
    "workers": Export(lambda topics: topics.workers, lambda _: read_worker, workers_table),
}


async def current_records(settings: Settings, export: Export) -> list[Mapping[str, Any]]:
    """Return the last record of every key in the topic now, sorted by key."""
    parse = export.parser(settings.crowd_classes)
    last = await last_values(settings, export.topic(Topics(settings)))
    return [loads(last[key]) for key in sorted(last) if readable(parse, last[key]) is not None]


async def last_values(settings: Settings, topic: Topic) -> dict[bytes, bytes]:
    """Return the last value of every key in a compacted topic now."""
    last: dict[bytes, bytes] = {}
    async with reading(settings, topic.name, from_start=True) as reader:
        async for records in reader.to_the_end("Reading"):
            keep_last(last, records)
    return last
