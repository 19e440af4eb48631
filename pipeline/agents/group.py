"""Results of the worker agent and the task agent that are published together."""

from typing import NamedTuple

from aiokafka import ConsumerRecord

from pipeline.inference.labels import Ints
from pipeline.records.bad import BadRecord
from pipeline.stages.exchange import EstimateRecords
from pipeline.stages.taken import Forwarded, Rejected, Taken
from pipeline.stages.task_stage import Counted

RECORDS_AT_ONCE = 8_000  # labels and votes in a group


class Evidence(NamedTuple):
    """A record for the evidence topic: votes that are counted now."""

    partition: int
    value: bytes


class Group:
    """Results from several partitions."""

    def __init__(self) -> None:
        self.taken: Taken[ConsumerRecord] = Taken()
        self.evidence: list[Evidence] = []
        self.workers: set[int] = set()
        self.rejected: list[Rejected[ConsumerRecord]] = []  # votes and descriptions
        self.forwarded: list[Forwarded[ConsumerRecord]] = []  # descriptions
        self.estimates: list[EstimateRecords] = []
        self.timestamps: list[Ints] = []  # of labels that the posteriors will count
        self.has_all_estimates = False  # of all tasks and workers of this instance
        self.labels = 0
        self.votes = 0
        self.fenced_votes = 0
        self.records = 0

    @property
    def is_full(self) -> bool:
        """Whether agents have to wait for the next group."""
        return self.records >= RECORDS_AT_ONCE

    def took_labels(self, labels: int) -> None:
        """Note that the group has the results of so many more labels."""
        self.labels += labels
        self.records += labels

    def took_votes(self, partition: int, records: list[ConsumerRecord], counted: Counted) -> None:
        """Add what came of the votes in these records."""
        self.votes += counted.votes
        self.records += max(1, counted.votes)
        self.fenced_votes += counted.fenced
        for place in counted.new:
            self.evidence.append(Evidence(partition, records[place].value))
        self.timestamps.append(counted.timestamps)

    def took_description(self) -> None:
        """Note that the group has the results of one more description."""
        self.records += 1

    def reject(self, record: ConsumerRecord, why: BadRecord) -> None:
        """Add a record for the dead letters."""
        self.rejected.append(Rejected(record, why))
