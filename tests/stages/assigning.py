"""One instance that assigns tasks, on simulated topics."""

from collections.abc import Iterable, Sequence
from typing import Any

from orjson import loads

from sbic.instance.leases import Leases
from sbic.instance.requests import Answered, AssignmentStage, Rules
from sbic.instance.taken import labels_in
from sbic.wire.assignments import encode_request, parse_assignment
from sbic.wire.dead_letters import Header
from sbic.wire.partitions import partition_of
from sbic.wire.tasks import Description
from tests.stages.simulated.log import Log, SimulatedRecord
from tests.stages.simulated.one_instance import OneInstance
from tests.stages.simulated.project import PRIOR, SimulatedProject


class AssigningInstance:
    """Workers ask here, and hand in their answers; `now` is the time, in milliseconds."""

    def __init__(
        self,
        rules: Rules,
        log: Log | None = None,
        assignments: Sequence[bytes] = (),
        *,
        partitions: int = 3,
        now: int = 0,
        project: SimulatedProject | None = None,
    ) -> None:
        self.log = log or Log(partitions)
        self.now = now
        self.leases = Leases()
        for value in assignments:
            given = parse_assignment(value)
            home = partition_of(given.worker.encode(), self.log.partitions)
            self.leases.learn(given, home, now)
        self.project = project or SimulatedProject()
        self.instance = OneInstance(self.log, self.project, recovers=False)
        self.stage = AssignmentStage(self.instance.workers, self.leases, rules, PRIOR)
        self.requests: list[list[SimulatedRecord]] = [[] for _ in range(self.log.partitions)]
        self.assignments = list(assignments)  # the topic
        self.last: Answered[SimulatedRecord] = Answered()
        self.instance.recover(self._take_over)

    def successor(self, rules: Rules) -> "AssigningInstance":
        """What takes over after a crash, from the topics alone."""
        assigning = AssigningInstance(
            rules, self.log, self.assignments, now=self.now, project=self.project
        )
        assigning.requests = self.requests
        assigning.instance.count(from_the_start=True)
        return assigning

    def _take_over(self, partitions: set[int]) -> None:
        answered: Answered[SimulatedRecord] = Answered()
        self.stage.take_over(partitions, self.now, answered)
        self._publish(answered)

    def describe(self, descriptions: Iterable[Description]) -> None:
        """Register or change tasks."""
        for description in descriptions:
            self.instance.describe(description)

    def ask(
        self, worker: str, count: int = 1, headers: Sequence[Header] = ()
    ) -> list[dict[str, Any]]:
        """A worker asks; what they get."""
        partition = partition_of(worker.encode(), self.log.partitions)
        requests = self.requests[partition]
        value = encode_request(worker, count)
        requests.append(SimulatedRecord(len(requests), self.now, value, None, headers, "requests"))
        return self.answer(partition, requests[-1:])

    def answer(self, partition: int, records: Sequence[SimulatedRecord]) -> list[dict[str, Any]]:
        """What the policy agent makes of requests."""
        answered: Answered[SimulatedRecord] = Answered()
        self.stage.answer(partition, records, self.now, answered)
        return self._publish(answered)

    def hand_in(self, worker: str, task: str, label: int | None) -> list[dict[str, Any]]:
        """A label, all the way to the posterior; what is published on the assignments topic."""
        taken = self.instance.label(task, worker, label)
        answered: Answered[SimulatedRecord] = Answered()
        if self.stage.heeds_labels:
            partition = partition_of(worker.encode(), self.log.partitions)
            answers = taken.answers[partition]
            labels = [label for some in answers for label in labels_in(some, classes=2)]
            self.stage.labels_taken(partition, labels, self.now, answered)
        self.instance.count()
        return self._publish(answered)

    def _publish(self, answered: Answered[SimulatedRecord]) -> list[dict[str, Any]]:
        self.last = answered
        values = [given.value for rows in answered.given.values() for given in rows]
        self.assignments += values
        return [loads(value) for value in values]
