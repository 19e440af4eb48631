"""Requests in, assignments out: the first task, in the policy's order, that a worker may get."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from math import log
from typing import Generic, Literal, NamedTuple

import numpy as np

from sbic.classes import RETRACT, SKIP
from sbic.engine.labels import Floats, Ints, Prior
from sbic.instance.crowd import Crowd
from sbic.instance.leases import Lease, Leases, Request
from sbic.instance.taken import Forwarded, R, Rejected, TakenLabel, labels_in
from sbic.instance.workers import WorkerStage
from sbic.policy.escalate import Escalate
from sbic.policy.policy import Policy, Uncertainty, Uniform
from sbic.wire.assignments import (
    LABEL,
    AssignmentId,
    AssignmentRecord,
    Ended,
    Refusal,
    encode_end,
    encode_lease,
    encode_refusal,
    parse_request,
)
from sbic.wire.bad import BadRecord

PolicyName = Literal["uncertainty", "uniform", "escalate"]
LEAST_WEIGHT = 0.1  # of an expected label: with α = β it would be 0, and all get the same task


@dataclass(frozen=True)
class Rules:
    """How tasks are assigned; see the settings of the same names."""

    policy: PolicyName = "uncertainty"
    seed: int = 0
    lease_ms: int = 600_000
    assign_on_label: bool = False
    gold_rate: float = 0.0
    block_below: float | None = None
    block_after: int = 0
    budget: int | None = None
    cost: int | None = None


def policy_of(
    name: Literal["uncertainty", "uniform"], tasks: Sequence[str], seed: int, prior: Prior
) -> Policy:
    """Return the policy of this name; an expected label weighs log(α / β), as a new worker's does.

    >>> policy_of("uniform", ["t1", "t2"], 1, Prior()).__class__.__name__
    'Uniform'
    """
    if name == "uniform":
        return Uniform(tasks, seed)
    return Uncertainty(tasks, seed, max(LEAST_WEIGHT, abs(log(prior.alpha / prior.beta))))


def steps_of(crowd: Crowd, prior: Prior) -> Floats:
    """Return what a label of each tier is worth, in log-odds, by how often its workers are right.

    >>> from sbic.classes import SIGNS
    >>> from sbic.engine.engine import Engine
    >>> steps_of(Crowd(Engine("settled"), SIGNS, partitions=1), Prior(3, 1)).round(3)[:2].tolist()
    [1.099, 1.099]
    """
    right, given = crowd.right_by_tier + prior.alpha, crowd.given_by_tier
    odds = np.maximum(right, 1e-9) / np.maximum(given + prior.alpha + prior.beta - right, 1e-9)
    steps: Floats = np.maximum(np.log((len(crowd.classes) - 1) * odds), LEAST_WEIGHT)
    return steps


def outcomes() -> Iterator[str]:
    """All outcomes of an assignment, for the metric: the policies and the refusals."""
    yield from ("uncertainty", "uniform", "escalate", "gold")
    yield from Refusal


# When a worker gets a gold task, whose truth is known: more often while they are new.


NEW_WORKER = 4.0  # times the rate, in addition, for a worker without labels
HALVED_EVERY = 5.0  # labels: the addition has a half-life

BYTES = 7
ALL_DRAWS = 1 << 8 * BYTES


class GoldRate:
    """The share of gold among a worker's assignments.

    With n labels so far it is

        min(1, g (1 + 4 · 2^(-n / 5)))

    where g is the rate for a worker with many labels. Whether the k-th assignment of a worker is
    gold depends only on the seed, the worker and k.

    >>> rate = GoldRate(0.1)
    >>> rate(labels=0), rate(labels=5), round(rate(labels=50), 3)
    (0.5, 0.30000000000000004, 0.1)
    """

    def __init__(self, rate: float, seed: int = 0) -> None:
        self.rate = rate
        self._key = str(seed).encode()[:16]

    def __call__(self, labels: int) -> float:
        """Return the rate for a worker with this many labels."""
        while_new: float = NEW_WORKER * 0.5 ** (labels / HALVED_EVERY)
        return min(1.0, self.rate * (1.0 + while_new))

    def is_due(self, worker: str, number: int, labels: int) -> bool:
        """Whether this assignment of a worker with this many labels is gold."""
        if self.rate == 0.0:
            return False
        name = f"{number} {worker}".encode()
        drawn = int.from_bytes(blake2b(name, digest_size=BYTES, key=self._key).digest(), "big")
        return drawn < self(labels) * ALL_DRAWS


# The tasks that a worker must not get.


NOTHING: frozenset[int] = frozenset()


class ExcludedTasks:
    """The tasks that a worker has answered or skipped, or has or had a lease for."""

    __slots__ = ("crowd", "leased", "skipped", "worker")

    def __init__(self, crowd: Crowd, worker: int | None, *leases: Iterable[str]) -> None:
        self.crowd = crowd
        self.worker = worker
        self.skipped = crowd.skipped.get(worker, NOTHING) if worker is not None else NOTHING
        self.leased = [crowd.tasks.known(task) for tasks in leases for task in tasks]

    def first_new(self, tasks: Ints) -> int:
        """Get the index of the first of these tasks that is new to the worker, or their number."""
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


class GivenRecord(NamedTuple):
    """A record for the assignments topic: its key and its value."""

    worker: str
    value: bytes


class Answered(Generic[R]):
    """The result of requests: everything to publish before they are acknowledged."""

    def __init__(self) -> None:
        self.given: dict[int, list[GivenRecord]] = {}  # by partition
        self.rejected: list[Rejected[R]] = []
        self.forwarded: list[Forwarded[R]] = []
        self.requests = 0
        self.timestamps: list[int] = []  # of the request, for each assignment
        self.outcomes: Counter[str] = Counter()


class AssignmentStage:
    """Assigns each worker the first open task, in the policy's order, that is new to them.

    The policy follows changes of tasks and leases: the cost of a request is that of the changes
    since the last one, and of looking at the first tasks. Gold tasks have a separate order.
    """

    def __init__(self, workers: WorkerStage, leases: Leases, rules: Rules, prior: Prior) -> None:
        self.workers = workers
        self.crowd = workers.crowd
        self.leases = leases
        self.rules = rules
        self.prior = prior
        self._surveyed = self.crowd.given_by_tier  # when the steps were computed
        names = self.crowd.tasks.names
        self.policy: Policy | Escalate
        if rules.policy == "escalate":
            self.policy = Escalate(names, steps_of(self.crowd, prior), rules.seed)
        else:
            self.policy = policy_of(rules.policy, names, rules.seed, prior)
        self.gold: Policy = Uniform(self.crowd.tasks.names, rules.seed)
        self.gold_rate = GoldRate(rules.gold_rate, rules.seed)
        self.unanswered: list[
            tuple[int, Request]
        ] = []  # labels that are requests, with their partition

    def follow(self, rules: Rules) -> None:
        """Assign by other rules from now on; the policy, its seed and the lease stay."""
        self.rules = replace(
            rules, policy=self.rules.policy, seed=self.rules.seed, lease_ms=self.rules.lease_ms
        )
        self.gold_rate = GoldRate(rules.gold_rate, self.rules.seed)

    def answer(self, partition: int, records: Sequence[R], now: int, answered: Answered[R]) -> None:
        """Answer requests, and add the results to `answered`."""
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
        """Return the partition and offset of a request, or those it had before it was forwarded.

        A request that was forwarded twice because of a crash counts once.
        """
        if record.headers:
            found = self.workers.seal.origin(record, self.crowd.partitions)
            if found is not None:
                return found.partition, found.offset
        return partition, record.offset

    @property
    def heeds_labels(self) -> bool:
        """Whether labels are needed here: as requests, to end leases, or to allow tasks again."""
        return (
            self.rules.assign_on_label
            or not self.leases.is_empty
            or self.policy.remembers_workers
            or self.gold.remembers_workers
        )

    def labels_taken(
        self, partition: int, labels: Iterable[TakenLabel], now: int, answered: Answered[R]
    ) -> None:
        """End the leases of labels that were taken; each label may also request the next task."""
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
        """Complete the work of the last owner of these partitions, once their answers are restored.

        This ends the leases of tasks that have been answered, and answers labels that are requests
        and were taken just before a crash.
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
            if partition in partitions:  # other partitions are up to their owners
                self._give(request, partition, 1, now, answered, now)
        for partition in partitions if self.rules.assign_on_label else ():
            recent = now - self.rules.lease_ms
            for answers in self.workers.partitions[partition].last_answers:
                labels = labels_in(answers, len(self.crowd.classes))
                late = [label for label in labels if label.timestamp > recent]
                self.labels_taken(partition, late, now, answered)

    def take_back(self, assignment: AssignmentRecord, partition: int) -> None:
        """Undo an assignment that was not published because the partition was revoked.

        Its request is consumed again; but not if the request was a label that was taken here.
        """
        self.leases.take_back(assignment)
        place, offset, _, source = assignment.id
        if source == LABEL:
            self.unanswered.append((partition, Request(source, place, offset, assignment.worker)))

    def _ended(self, name: str, task: str) -> Ended | None:
        """How a lease ended; None if it has not."""
        worker, number = self.crowd.workers.known(name), self.crowd.tasks.known(task)
        if worker is None or number is None:
            return None
        if self.crowd.engine.has_answered(worker, number):
            return "answered"
        return "skipped" if number in self.crowd.skipped.get(worker, NOTHING) else None

    def refresh(self, now: int, limit: int | None = None) -> int:
        """Update the policy with at most `limit` changed tasks; return how many are left."""
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
        """Allow a worker to get a task again."""
        number = self.crowd.tasks.known(task)
        if number is not None:
            self.policy.allow(number, worker)
            self.gold.allow(number, worker)

    def _place(self, tasks: Ints) -> None:
        """Update the policies with these tasks."""
        names, leased = self.crowd.tasks.names, self.leases.in_flight
        (labels, golds, leads), is_open = self.crowd.overview(tasks)
        in_flight = np.array([leased(names[task]) for task in tasks.tolist()])
        is_gold = golds >= 0
        if len(self.gold) or is_gold.any():
            self.gold.follow(tasks, is_open & is_gold, labels, leads, in_flight)
            is_open &= ~is_gold
        if isinstance(self.policy, Escalate):
            if self._surveyed is not self.crowd.given_by_tier:
                self._surveyed = self.crowd.given_by_tier
                self.policy.steps = steps_of(self.crowd, self.prior)
            offers = self.crowd.task.tier, self.crowd.task.left
            dependence = self.crowd.engine.dependence
            self.policy.follow(tasks, is_open, *offers, labels, leads, in_flight, dependence)
        else:
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
        """Answer one request, starting with the first assignment that is not published yet."""
        source, place, offset, name = request
        worker = self.crowd.workers.known(name)
        given = answered.given.setdefault(partition, [])
        for number in range(self.leases.numbers_out(request, count), count):
            identity = AssignmentId(place, offset, number, source)
            task, why = self._choose(name, worker, partition, now)
            expires_at = now + self.rules.lease_ms
            if task is None:
                value = encode_refusal(name, Refusal(why), identity, now)
            else:
                value = encode_lease(name, task, identity, why, now, expires_at)
            lease = Lease(identity, partition, expires_at)
            self.leases.give(request, number, task, lease, now)
            given.append(GivenRecord(name, value))
            answered.outcomes[why] += 1
            answered.timestamps.append(timestamp)
            if task is None:
                break

    def _choose(
        self, name: str, worker: int | None, partition: int, now: int
    ) -> tuple[str | None, str]:
        """Return a task and the policy that chose it, or None and the reason."""
        labels = 0 if worker is None else self.crowd.engine.given(worker)
        if self._is_blocked(name, worker, partition, labels):
            return None, Refusal.WORKER_BLOCKED
        self.refresh(now)
        leases = self.leases
        over = leases.expired(name), leases.ended(name)
        excluded = ExcludedTasks(self.crowd, worker, leases.of(name), *over)
        if self.gold_rate.is_due(name, len(excluded), labels):
            gold = self.gold.choose(excluded, name)
            if gold is not None:
                return self.crowd.tasks.names[gold], "gold"
        if isinstance(self.policy, Escalate):
            tier = self.crowd.roster.of(partition, name).tier or 1
            task, here = self.policy.choose(tier, excluded, name), self.policy.open_in(tier)
            if any(map(self.policy.open_in, range(1, tier))):
                here = 0  # those that are with lower tiers now may still come
        else:
            task, here = self.policy.choose(excluded, name), len(self.policy)
        if task is not None:
            return self.crowd.tasks.names[task], self.rules.policy
        if here:
            return None, Refusal.ALL_ANSWERED
        if len(self.policy):
            return None, Refusal.OTHER_TIER
        return None, Refusal.BUDGET_SPENT if self._is_spent else Refusal.NO_OPEN_TASK

    @property
    def _is_spent(self) -> bool:
        budget, cost = self.rules.budget, self.rules.cost
        is_spent = budget is not None and self.crowd.labels >= budget
        return is_spent or (cost is not None and self.crowd.spent >= cost)

    def _is_blocked(self, name: str, worker: int | None, partition: int, labels: int) -> bool:
        """Whether the owner blocks a worker, or, where they say nothing, the rule does."""
        said = self.crowd.roster.of(partition, name).blocked
        if said is not None:
            return said
        below, after = self.rules.block_below, self.rules.block_after
        if worker is None or below is None or labels < after:
            return False
        return bool(self.crowd.engine.workers([worker]).accuracy[0] < below)

    def _publish_end(
        self, worker: str, task: str, lease: Lease, ended: Ended, answered: Answered[R]
    ) -> None:
        value = encode_end(worker, task, lease.id, ended)
        answered.given.setdefault(lease.partition, []).append(GivenRecord(worker, value))
