"""A project with a single instance."""

from collections.abc import Callable, Sequence
from typing import Any

from orjson import loads

from sbic.instance.taken import Taken
from sbic.instance.workers import encode_workers
from sbic.wire.tasks import Description
from sbic.wire.workers import RosterEntry
from tests.stages.simulated.log import Log, SimulatedRecord
from tests.stages.simulated.member import SimulatedMember
from tests.stages.simulated.project import SimulatedProject


class OneInstance(SimulatedMember):
    """An instance with all partitions, which publishes each result at once."""

    def __init__(
        self,
        log: Log,
        project: SimulatedProject = SimulatedProject(),  # noqa: B008  # frozen
        *,
        recovers: bool = True,
    ) -> None:
        super().__init__(log, project)
        if recovers:
            self.recover()

    def recover(self, take_over: Callable[[set[int]], None] = lambda _: None) -> None:
        """Recover from the log."""
        self.assign(set(range(self.log.partitions)))
        self.restore_all()
        self.workers_ready(take_over)
        self.tasks_ready(generation=1)
        self.count_unread()
        self.flush()

    def take(
        self,
        partition: int,
        records: Sequence[SimulatedRecord],
        *,
        crash_before_votes: bool = False,
    ) -> Taken[SimulatedRecord]:
        """Process a batch as the worker agent does, up to a crash."""
        taken = self.instance.filling.taken
        self.instance.take({partition: records})
        if crash_before_votes:
            self.publish()
            self.pending = None
        else:
            self.flush()
        return taken

    def label(self, task: str, worker: str, label: int | str | None) -> Taken[SimulatedRecord]:
        """Produce a label and take it."""
        partition = self.log.produce(task, worker, label)
        return self.take(partition, self.log["labels"][partition][-1:])

    def count(self, *, from_the_start: bool = False) -> None:
        """Process all waiting votes as the task agent does."""
        for partition in range(self.log.partitions):
            if from_the_start:
                self.positions["votes", partition] = 0
            self.count_votes(partition)
        self.flush()

    def describe(self, description: Description) -> None:
        """Describe a task, and publish its posterior."""
        partition = self.log.describe(description)
        self.heed(partition)
        self.flush()

    def enlist_worker(self, worker: str, entry: RosterEntry | None) -> None:
        """Say something of a worker, or withdraw it."""
        self.enlist(self.log.enlist(worker, entry))
        self.flush()

    def publish_all(self) -> None:
        """Publish the posterior of every task once more."""
        self.crowd.touched.add(range(len(self.crowd.tasks)))
        self.flush()

    def number_of_task(self, task: str) -> int:
        """The number of a task."""
        number = self.crowd.tasks.known(task)
        assert number is not None
        return number

    def worker(self, name: str) -> dict[str, Any]:
        """The record of a worker as it would be published."""
        [record] = encode_workers(self.crowd, self.crowd.number_workers([name]))
        found: dict[str, Any] = loads(record.value)
        return found

    def results(self) -> dict[str, dict[str, Any]]:
        """The last posterior of every task."""
        return self.log.posteriors()
