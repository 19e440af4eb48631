"""Which labels of the labels topic stand, decided as an instance decides.

The same parser and the same engine as in an instance deal with repeated answers, answers taken
back, skips, bad labels, and labels in another partition than their worker's (these stand in the
partition they are forwarded to).
"""

from collections.abc import Iterable, Iterator
from typing import Literal, NamedTuple

import numpy as np
from aiokafka import ConsumerRecord

from pipeline.classes import SKIP, Classes
from pipeline.inference.engine.engine import Engine
from pipeline.inference.engine.ids import Ids
from pipeline.kafka.reading import reading
from pipeline.kafka.sending import Label
from pipeline.partitioner import partition_of
from pipeline.progress import progress
from pipeline.records.bad import BadRecord
from pipeline.records.labels import label_parser
from pipeline.settings import Settings
from pipeline.topics import Topics

TASKS_AT_ONCE = 10_000


class Answer(NamedTuple):
    """A worker's label on a task, as it is on the wire."""

    worker: str
    label: int | str


class Standing:
    """The labels that stand so far: about 30 bytes for each, and the ids once."""

    def __init__(
        self, classes: Classes, partitions: int, repeats: Literal["first", "last"] = "first"
    ) -> None:
        self.classes = classes
        self.partitions = partitions
        self.replaces = repeats == "last"
        self.tasks = Ids[str]()
        self.workers = Ids[str]()
        self._homes: list[int] = []  # the partition of each worker
        self._parse = label_parser(classes)
        self._engine = Engine("settled", classes=len(classes), class_prior="uniform")

    def take(self, records: Iterable[ConsumerRecord]) -> None:
        """Process records of the labels topic, each partition's in order."""
        rows = []
        for record in records:
            try:
                task, worker, answer = self._parse(record.value)
            except BadRecord:
                continue  # a dead letter
            if answer != SKIP and self._home(worker) == record.partition:
                rows.append((self.tasks.number(task), self.workers.number(worker), answer))
        if rows:
            tasks, workers, answers = np.array(rows, np.int64).T
            self._engine.take(tasks, workers, answers, replaces=self.replaces)

    def _home(self, worker: str) -> int:
        number = self.workers.number(worker)
        if number == len(self._homes):
            self._homes.append(partition_of(worker.encode(), self.partitions))
        return self._homes[number]

    def __len__(self) -> int:
        return self._engine.labels_here

    def answers_to(self, task: str) -> list[Answer]:
        """The labels of a task that stand, in their order."""
        number = self.tasks.known(task)
        if number is None:
            return []
        _, workers, answers = self._engine.labels_of([number])
        return [
            Answer(self.workers.names[j], self.classes.label_of(answer))
            for j, answer in zip(workers.tolist(), answers.tolist(), strict=True)
        ]

    def __iter__(self) -> Iterator[Label]:
        """All labels that stand, tasks in the order of their first label."""
        for first in range(0, len(self.tasks), TASKS_AT_ONCE):
            tasks = np.arange(first, min(first + TASKS_AT_ONCE, len(self.tasks)))
            columns = (column.tolist() for column in self._engine.labels_of(tasks))
            for i, j, answer in zip(*columns, strict=True):
                label = self.classes.label_of(answer)
                yield Label(self.tasks.names[i], self.workers.names[j], label)


async def standing_labels(settings: Settings) -> Standing:
    """The labels that stand of all that the topic has now."""
    async with reading(settings, Topics(settings).labels.name, from_start=True) as reader:
        found = Standing(settings.crowd_classes, len(reader.partitions), settings.repeats)
        with progress("Reading", total=sum(reader.ends.values())) as advance:
            async for records in reader.to_the_end():
                found.take(records)
                advance(len(records))
    return found


def compile_engine() -> None:
    """Compile or load the engine of `Standing`; compiling takes seconds the first time."""
    engine = Engine("settled", classes=2, class_prior="uniform")
    engine.take(np.array([0]), np.array([0]), np.array([1]), replaces=True)
    engine.labels_of([0])
