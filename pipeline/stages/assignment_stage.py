"""The policy agent's step: requests in, assignments out; knows what each worker may not get."""

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from math import log
from typing import Generic, Literal, NamedTuple

from pipeline.inference.algorithm import Prior
from pipeline.partitioner import partition_of
from pipeline.policies.policy import Policy
from pipeline.policies.uncertainty import Uncertainty
from pipeline.policies.uniform import Uniform
from pipeline.records.assignments import (
    Assignment,
    Ended,
    Refusal,
    encode_end,
    encode_lease,
    encode_refusal,
    id_of,
)
from pipeline.records.bad import BadRecord
from pipeline.records.requests import parse_request
from pipeline.records.votes import Vote, VotesByPartition
from pipeline.stages.gold_rate import GoldRate
from pipeline.stages.leases import Leases
from pipeline.stages.task_view import TaskView, Worker
from pipeline.stages.timed_leases import Lease
from pipeline.stages.worker_stage import Forwarded, R, Rejected, WorkerStage

PolicyName = Literal["uncertainty", "uniform"]
LEAST_WEIGHT = 0.1  # of a label to come: where α = β it would be 0, and all would get one task
LABEL = "label"  # the source of requests that are labels


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
    """The tasks that a worker has answered, skipped or holds, or held until the lease expired."""

    __slots__ = ("kinds",)

    def __init__(self, worker: Worker | None, *leases: Collection[str]) -> None:
        kinds = (worker.answers, worker.skipped, *leases) if worker else leases
        self.kinds = [kind for kind in kinds if kind]

    def __contains__(self, task: object) -> bool:
        return any(task in kind for kind in self.kinds)

    def __len__(self) -> int:
        return sum(map(len, self.kinds))


class AssignmentStage:
    """Gives each worker the open task that the policy puts first among those new to them.

    The policy follows the task view and the leases: a request costs what has changed since the
    last one, and a choice from a heap. Gold tasks are kept apart, in an order of their own.
    """

    def __init__(
        self, view: TaskView, workers: WorkerStage, leases: Leases, rules: Rules, prior: Prior
    ) -> None:
        self.view = view
        self.workers = workers
        self.leases = leases
        self.rules = rules
        self.policy = policy_of(rules.policy, rules.seed, prior)
        self.gold: Policy[str] = Uniform(rules.seed)
        self.gold_rate = GoldRate(rules.gold_rate, rules.seed)
        self._opened = 0  # how often a task was new to the policy
        self._exhausted: dict[str, tuple[int, int]] = {}  # workers for whom there was no task left
        view.changed = dict.fromkeys(view.beliefs)

    def answer(self, partition: int, records: Sequence[R], now: int, answered: Answered[R]) -> None:
        """Answer requests, and add what they come to to `answered`."""
        for record in records:
            answered.requests += 1
            try:
                worker, count = parse_request(record.value)
            except BadRecord as bad:
                answered.rejected.append(Rejected(record, bad))
                continue
            home = partition_of(worker.encode(), self.view.partitions)
            if home != partition:
                answered.forwarded.append(Forwarded(record, worker, home))
                continue
            place = "", partition, record.offset
            self._give(worker, place, count, now, answered, record.timestamp)

    @property
    def heeds_labels(self) -> bool:
        """Whether labels matter here: as requests, to leases, or to who found no task left."""
        return self.rules.assign_on_label or not self.leases.is_empty or bool(self._exhausted)

    def labels_taken(
        self, partition: int, votes: VotesByPartition, now: int, answered: Answered[R]
    ) -> None:
        """Labels were taken: their leases end, and each may be a request for the next task."""
        rows = sorted((row for rows in votes.values() for row in rows), key=_offset)
        for task, worker, label, _vote, _labels, offset, timestamp in rows:
            if label is None:  # an answer taken back: the worker may get the task again
                self._exhausted.pop(worker, None)
                self.leases.forget(worker, task)
                continue
            lease = self.leases.end(worker, task)
            if lease is not None:
                self._publish_end(worker, task, lease, "answered" if label else "skipped", answered)
            if self.rules.assign_on_label:
                self._give(worker, (LABEL, partition, offset), 1, now, answered, timestamp)

    def take_over(self, partitions: set[int], now: int, answered: Answered[R]) -> None:
        """Finish what the last owner of these partitions left, once their answers are known.

        Leases of tasks that have been answered end; and labels that are requests, and were taken
        just before a crash, are answered.
        """
        self.leases.expire(now)
        self._exhausted.clear()
        for name, task, lease in list(self.leases.among(partitions)):
            worker = self._worker(lease.partition, name)
            if worker is not None and (task in worker.answers or task in worker.skipped):
                ended: Ended = "answered" if task in worker.answers else "skipped"
                self.leases.end(name, task)
                self._publish_end(name, task, lease, ended, answered)
        for partition in partitions if self.rules.assign_on_label else ():
            recent = now - self.rules.lease_ms
            for votes in self.workers.partitions[partition].last:
                rows = {home: [row for row in votes[home] if row[6] > recent] for home in votes}
                self.labels_taken(partition, rows, now, answered)

    def refresh(self, now: int, limit: int | None = None) -> int:
        """Let the policy follow at most `limit` tasks that have moved; how many are left."""
        self.leases.expire(now)
        for changed in (self.view.changed, self.leases.changed):
            assert changed is not None, "this stage wants to know"
            while changed and limit != 0:
                self._place(changed.popitem()[0])
                if limit is not None:
                    limit -= 1
        return len(self.view.changed or ()) + len(self.leases.changed)

    def _place(self, task: str) -> None:
        belief = self.view.beliefs.get(task)
        if belief is None or not belief.open:
            self.policy.remove(task)
            self.gold.remove(task)
            return
        here, other = (self.gold, self.policy) if belief.gold else (self.policy, self.gold)
        other.remove(task)
        self._opened += task not in here
        here.update(task, belief.labels, belief.log_odds, self.leases.in_flight(task))

    def _give(
        self,
        name: str,
        place: tuple[str, int, int],
        count: int,
        now: int,
        answered: Answered[R],
        timestamp: int,
    ) -> None:
        """Answer one request, from the first assignment on that is not out yet."""
        source, partition, offset = place
        worker = self._worker(partition, name)
        given = answered.given.setdefault(partition, [])
        with self.policy.same_worker(), self.gold.same_worker():
            for number in range(self.leases.numbers_out(source, partition, offset, count), count):
                identity = id_of(partition, offset, number, source)
                task, why = self._choose(name, worker, now)
                expires_at = now + self.rules.lease_ms
                if task is None:
                    value = encode_refusal(name, Refusal(why), identity, now)
                else:
                    value = encode_lease(name, task, identity, why, now, expires_at)
                self.leases.learn(Assignment(name, task, identity, expires_at, ended=False), now)
                given.append(Given(name, value))
                answered.outcomes[why] += 1
                answered.timestamps.append(timestamp)
                if task is None:
                    break

    def _choose(self, name: str, worker: Worker | None, now: int) -> tuple[str | None, str]:
        """A task and the policy that chose it, or none and the reason."""
        labels = worker.labels if worker else 0
        if worker and self._is_blocked(worker):
            return None, Refusal.WORKER_BLOCKED
        self.refresh(now)
        not_again = NotAgain(worker, self.leases.of(name), self.leases.expired(name))
        if self.gold_rate.is_due(name, len(not_again), labels):
            gold = self.gold.choose(not_again)
            if gold is not None:
                return gold, "gold"
        # whoever asks again when all is answered must not cost a look at all tasks every time
        state = self._opened, self.leases.forgotten
        if self._exhausted.get(name) != state:
            task = self.policy.choose(not_again)
            if task is not None:
                return task, self.rules.policy
            self._exhausted[name] = state
        if len(self.policy):
            return None, Refusal.ALL_ANSWERED
        spent = self.rules.budget is not None and self.view.labels >= self.rules.budget
        return None, Refusal.BUDGET_SPENT if spent else Refusal.NO_OPEN_TASK

    def _is_blocked(self, worker: Worker) -> bool:
        below, after = self.rules.block_below, self.rules.block_after
        return (
            below is not None
            and worker.labels >= after
            and self.view.model.accuracy(worker.labels, worker.correct) < below
        )

    def _worker(self, partition: int, name: str) -> Worker | None:
        return self.workers.partitions[partition].workers.get(name)

    def _publish_end(
        self, worker: str, task: str, lease: Lease, ended: Ended, answered: Answered[R]
    ) -> None:
        value = encode_end(worker, task, lease.id, ended)
        answered.given.setdefault(lease.partition, []).append(Given(worker, value))


def policy_of(name: PolicyName, seed: int, prior: Prior) -> Policy[str]:
    """The policy of this name; a label to come weighs log(α / β), as a stranger's does.

    >>> policy_of("uniform", 1, Prior()).__class__.__name__
    'Uniform'
    """
    if name == "uniform":
        return Uniform(seed)
    return Uncertainty(seed, max(LEAST_WEIGHT, abs(log(prior.alpha / prior.beta))))


def outcomes() -> Iterator[str]:
    """All that can become of an assignment, for the metric: the policies, and the refusals."""
    yield from ("uncertainty", "uniform", "gold")
    yield from Refusal


def _offset(row: Vote) -> int:
    offset: int = row[5]
    return offset
