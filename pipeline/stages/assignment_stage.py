"""The policy agent's step: requests in, assignments out; knows what each worker may not get."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import log
from typing import Generic, Literal, NamedTuple

import numpy as np

from pipeline.classes import RETRACT, SKIP
from pipeline.inference.algorithm import Prior
from pipeline.inference.labels import Ints
from pipeline.policies.policy import Policy
from pipeline.policies.uncertainty import Uncertainty
from pipeline.policies.uniform import Uniform
from pipeline.records.assignments import (
    LABEL,
    Assignment,
    Ended,
    Refusal,
    encode_end,
    encode_lease,
    encode_refusal,
    id_of,
    place_of,
)
from pipeline.records.bad import BadRecord
from pipeline.records.origin import origin_of
from pipeline.records.requests import parse_request
from pipeline.stages.crowd import OPEN, Crowd
from pipeline.stages.gold_rate import GoldRate
from pipeline.stages.leases import Leases, Request
from pipeline.stages.timed_leases import Lease
from pipeline.stages.worker_stage import (
    Forwarded,
    R,
    Rejected,
    TakenLabel,
    WorkerStage,
    labels_in,
)

PolicyName = Literal["uncertainty", "uniform"]
LEAST_WEIGHT = 0.1  # of a label to come: where α = β it would be 0, and all would get one task
NOTHING: frozenset[int] = frozenset()


@dataclass(frozen=True)
class Rules:
    """How tasks are given out; the settings of the same names say more."""

    policy: PolicyName = "uncertainty"
    seed: int = 0
    lease_ms: int = 600_000
    assign_on_label: bool = False
    gold_rate: float = 0.0
    block_below: float | None = None
    block_after: int = 0
    budget: int | None = None


class Given(NamedTuple):
    """A record for the assignments topic: its key and its value."""

    worker: str
    value: bytes


class Answered(Generic[R]):
    """What requests came to: all that is to be published before they are acked."""

    def __init__(self) -> None:
        self.given: dict[int, list[Given]] = {}  # by partition
        self.rejected: list[Rejected[R]] = []
        self.forwarded: list[Forwarded[R]] = []
        self.requests = 0
        self.timestamps: list[int] = []  # of the requests that are answered, for each assignment
        self.outcomes: Counter[str] = Counter()


class NotAgain:
    """The tasks that a worker has answered, skipped or holds, or held until the lease was over."""

    __slots__ = ("crowd", "leased", "skipped", "worker")

    def __init__(self, crowd: Crowd, worker: int | None, *leases: Iterable[str]) -> None:
        self.crowd = crowd
        self.worker = worker
        self.skipped = crowd.skipped.get(worker, NOTHING) if worker is not None else NOTHING
        self.leased = [crowd.tasks.known(task) for tasks in leases for task in tasks]

    def first_new(self, tasks: Ints) -> int:
        """The place of the first of these tasks that is new to the worker, or their number."""
        place = 0
        while True:
            if self.worker is not None:
                place = self.crowd.engine.first_unanswered(self.worker, tasks, place)
            if place == len(tasks):
                return place
            task = int(tasks[place])
            if task not in self.skipped and task not in self.leased:
                return place
            place += 1

    def __len__(self) -> int:
        answered = 0 if self.worker is None else self.crowd.engine.given(self.worker)
        return answered + len(self.skipped) + len(self.leased)


class AssignmentStage:
    """Gives each worker the open task that the policy puts first among those new to them.

    The policy follows the task view and the leases: a request costs what has changed since the
    last one, and a look at the first tasks. Gold tasks are kept apart, in an order of their own.
    """

    def __init__(self, workers: WorkerStage, leases: Leases, rules: Rules, prior: Prior) -> None:
        self.workers = workers
        self.crowd = workers.crowd
        self.leases = leases
        self.rules = rules
        self.policy = policy_of(rules.policy, self.crowd.tasks.names, rules.seed, prior)
        self.gold: Policy = Uniform(self.crowd.tasks.names, rules.seed)
        self.gold_rate = GoldRate(rules.gold_rate, rules.seed)
        self.unanswered: list[tuple[int, Request]] = []  # labels that are requests, by partition

    def answer(self, partition: int, records: Sequence[R], now: int, answered: Answered[R]) -> None:
        """Answer requests, and add what they come to to `answered`."""
        for record in records:
            answered.requests += 1
            try:
                worker, count = parse_request(record.value)
            except BadRecord as bad:
                answered.rejected.append(Rejected(record, bad))
                continue
            home = self.crowd.home_of(worker)
            if home != partition:
                answered.forwarded.append(Forwarded(record, worker, home))
                continue
            request = Request("", *self._place_of(partition, record), worker)
            self._give(request, partition, count, now, answered, record.timestamp)

    def _place_of(self, partition: int, record: R) -> tuple[int, int]:
        """The partition and offset of a request, or those it had before it was forwarded.

        One that a crash has forwarded twice is one request.
        """
        if record.headers:
            told = origin_of(record.headers, record.topic, self.crowd.partitions)
            if told is not None and told.offset < self.workers.judge.ends.requests[told.partition]:
                return told.partition, told.offset
        return partition, record.offset

    @property
    def heeds_labels(self) -> bool:
        """Whether labels matter here: as requests, to leases, or when they are taken back."""
        return (
            self.rules.assign_on_label
            or not self.leases.is_empty
            or self.policy.remembers_workers
            or self.gold.remembers_workers
        )

    def labels_taken(
        self, partition: int, labels: Iterable[TakenLabel], now: int, answered: Answered[R]
    ) -> None:
        """Labels were taken: their leases end, and each may be a request for the next task."""
        for task, worker, answer, offset, timestamp in labels:
            if answer == RETRACT:  # the worker may get the task again
                self.leases.forget(worker, task)
                self._allow(worker, task)
                continue
            lease = self.leases.end(worker, task)
            if lease is not None:
                ended: Ended = "skipped" if answer == SKIP else "answered"
                self._publish_end(worker, task, lease, ended, answered)
            if self.rules.assign_on_label:
                request = Request(LABEL, partition, offset, worker)
                self._give(request, partition, 1, now, answered, timestamp)

    def take_over(self, partitions: set[int], now: int, answered: Answered[R]) -> None:
        """Finish what the last owner of these partitions left, once their answers are known.

        Leases of tasks that have been answered end; and labels that are requests, and were taken
        just before a crash, are answered.
        """
        self.leases.expire(now)
        self.policy.forget()
        self.gold.forget()
        for name, task, lease in list(self.leases.among(partitions)):
            ended = self._ended(name, task)
            if ended is not None:
                self.leases.end(name, task)
                self._publish_end(name, task, lease, ended, answered)
        unanswered, self.unanswered = self.unanswered, []
        for partition, request in unanswered:
            if partition in partitions:  # the owner of any other sees to it
                self._give(request, partition, 1, now, answered, now)
        for partition in partitions if self.rules.assign_on_label else ():
            recent = now - self.rules.lease_ms
            for answers in self.workers.partitions[partition].last_answers:
                labels = labels_in(answers, len(self.crowd.classes))
                late = [label for label in labels if label.timestamp > recent]
                self.labels_taken(partition, late, now, answered)

    def take_back(self, assignment: Assignment, partition: int) -> None:
        """An assignment was not published: this instance has lost its place.

        A request is read again. A label is not, where this instance has taken it.
        """
        self.leases.take_back(assignment)
        source, place, offset, _ = place_of(assignment.id)
        if source == LABEL:
            self.unanswered.append((partition, Request(source, place, offset, assignment.worker)))

    def _ended(self, name: str, task: str) -> Ended | None:
        """How a lease has ended, if it has."""
        worker, number = self.crowd.workers.known(name), self.crowd.tasks.known(task)
        if worker is None or number is None:
            return None
        if self.crowd.engine.has_answered(worker, number):
            return "answered"
        return "skipped" if number in self.crowd.skipped.get(worker, NOTHING) else None

    def refresh(self, now: int, limit: int | None = None) -> int:
        """Let the policy follow at most `limit` tasks that have moved; how many are left."""
        self.leases.expire(now)
        while self.leases.forgotten:
            self._allow(*self.leases.forgotten.pop())
        changed, leased = self.crowd.changed, self.leases.changed
        known = self.crowd.tasks.known
        changed.add([number for task in leased if (number := known(task)) is not None])
        leased.clear()
        some = changed.take(limit)
        if len(some):
            self._place(some)
        return len(changed)

    def _allow(self, worker: str, task: str) -> None:
        """A worker may get a task again."""
        number = self.crowd.tasks.known(task)
        if number is not None:
            self.policy.allow(number, worker)
            self.gold.allow(number, worker)

    def _place(self, tasks: Ints) -> None:
        """Let the policies follow these tasks."""
        crowd, names, leased = self.crowd, self.crowd.tasks.names, self.leases.in_flight
        labels, golds, leads = crowd.engine.overview(tasks)
        if not crowd.is_alone:
            labels = np.where(crowd.is_own_task(tasks), labels, crowd.task.told_labels[tasks])
        in_flight = np.array([leased(names[task]) for task in tasks.tolist()])
        is_open = crowd.task.reason[tasks] == OPEN
        if len(self.gold) or golds.max() >= 0:
            self.gold.follow(tasks, is_open & (golds >= 0), labels, leads, in_flight)
            is_open &= golds < 0
        self.policy.follow(tasks, is_open, labels, leads, in_flight)

    def _give(
        self,
        request: Request,
        partition: int,
        count: int,
        now: int,
        answered: Answered[R],
        timestamp: int,
    ) -> None:
        """Answer one request, from the first assignment on that is not out yet."""
        source, place, offset, name = request
        worker = self.crowd.workers.known(name)
        given = answered.given.setdefault(partition, [])
        for number in range(self.leases.numbers_out(request, count), count):
            identity = id_of(place, offset, number, source)
            task, why = self._choose(name, worker, now)
            expires_at = now + self.rules.lease_ms
            if task is None:
                value = encode_refusal(name, Refusal(why), identity, now)
            else:
                value = encode_lease(name, task, identity, why, now, expires_at)
            made = Assignment(name, task, identity, expires_at, ended=False)
            self.leases.learn(made, partition, now)
            given.append(Given(name, value))
            answered.outcomes[why] += 1
            answered.timestamps.append(timestamp)
            if task is None:
                break

    def _choose(self, name: str, worker: int | None, now: int) -> tuple[str | None, str]:
        """A task and the policy that chose it, or none and the reason."""
        labels = 0 if worker is None else self.crowd.engine.given(worker)
        if worker is not None and self._is_blocked(worker, labels):
            return None, Refusal.WORKER_BLOCKED
        self.refresh(now)
        leases = self.leases
        over = leases.expired(name), leases.ended(name)
        not_again = NotAgain(self.crowd, worker, leases.of(name), *over)
        if self.gold_rate.is_due(name, len(not_again), labels):
            gold = self.gold.choose(not_again, name)
            if gold is not None:
                return self.crowd.tasks.names[gold], "gold"
        task = self.policy.choose(not_again, name)
        if task is not None:
            return self.crowd.tasks.names[task], self.rules.policy
        if len(self.policy):
            return None, Refusal.ALL_ANSWERED
        spent = self.rules.budget is not None and self.crowd.labels >= self.rules.budget
        return None, Refusal.BUDGET_SPENT if spent else Refusal.NO_OPEN_TASK

    def _is_blocked(self, worker: int, labels: int) -> bool:
        below, after = self.rules.block_below, self.rules.block_after
        if below is None or labels < after:
            return False
        return bool(self.crowd.engine.workers([worker]).accuracy[0] < below)

    def _publish_end(
        self, worker: str, task: str, lease: Lease, ended: Ended, answered: Answered[R]
    ) -> None:
        value = encode_end(worker, task, lease.id, ended)
        answered.given.setdefault(lease.partition, []).append(Given(worker, value))


def policy_of(name: PolicyName, tasks: Sequence[str], seed: int, prior: Prior) -> Policy:
    """The policy of this name; a label to come weighs log(α / β), as a stranger's does.

    >>> policy_of("uniform", ["t1", "t2"], 1, Prior()).__class__.__name__
    'Uniform'
    """
    if name == "uniform":
        return Uniform(tasks, seed)
    return Uncertainty(tasks, seed, max(LEAST_WEIGHT, abs(log(prior.alpha / prior.beta))))


def outcomes() -> Iterator[str]:
    """All that can become of an assignment, for the metric: the policies, and the refusals."""
    yield from ("uncertainty", "uniform", "gold")
    yield from Refusal
