"""Topics as lists of records, and the offsets that a group has committed."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from orjson import loads

from sbic.wire.dead_letters import Header
from sbic.wire.labels import encode_label
from sbic.wire.partitions import partition_of
from sbic.wire.tasks import Description, encode_task
from sbic.wire.workers import RosterEntry, encode_roster


@dataclass
class SimulatedRecord:
    offset: int
    timestamp: int
    value: bytes | None
    key: bytes | None = None
    headers: Sequence[Header] = ()
    topic: str = "labels"
    partition: int = 0


class Write(NamedTuple):
    """A record to append to a partition of a topic."""

    topic: str
    partition: int
    value: bytes | None
    key: bytes | None = None
    headers: Sequence[Header] = ()


CHANGELOGS = "answers", "evidence"
INPUTS = "labels", "votes", "tasks", "roster"
TOPICS = (*INPUTS, *CHANGELOGS, "estimates", "posteriors", "flat", "workers", "dead-letters")

Topic = list[list[SimulatedRecord]]
"""The records of a topic, by partition."""


class Log:
    """The topics, and the offsets that the group has committed."""

    def __init__(self, partitions: int) -> None:
        self.partitions = partitions
        self.topics: dict[str, Topic] = {name: [[] for _ in range(partitions)] for name in TOPICS}
        self.committed: defaultdict[tuple[str, int], int] = defaultdict(int)
        self.now = 0

    def __getitem__(self, topic: str) -> Topic:
        return self.topics[topic]

    def write(self, write: Write) -> int:
        """Append a record; its offset."""
        records = self[write.topic][write.partition]
        topic, partition, value, key, headers = write
        records.append(
            SimulatedRecord(len(records), self.now, value, key, headers, topic, partition)
        )
        return len(records) - 1

    def produce(self, task: str, worker: str, label: int | str | None) -> int:
        """Append a label; its partition."""
        partition = partition_of(worker.encode(), self.partitions)
        offset = len(self["labels"][partition])
        value = encode_label(task, worker, label)
        key = worker.encode()
        self["labels"][partition].append(
            SimulatedRecord(offset, offset, value, key, partition=partition)
        )
        return partition

    def describe(self, description: Description) -> int:
        """Append a record to the tasks topic; its partition."""
        key = description["task"].encode()
        partition = partition_of(key, self.partitions)
        self.write(Write("tasks", partition, encode_task(description), key))
        return partition

    def enlist(self, worker: str, entry: RosterEntry | None) -> int:
        """Append a record to the roster, None for a tombstone; its partition."""
        partition = partition_of(worker.encode(), self.partitions)
        value = None if entry is None else encode_roster(worker, entry)
        self.write(Write("roster", partition, value, worker.encode()))
        return partition

    def posteriors(self) -> dict[str, dict[str, Any]]:
        """The last posterior of every task."""
        return {
            posterior["task"]: posterior
            for records in self["posteriors"]
            for posterior in (loads(record.value or b"") for record in records)
        }
