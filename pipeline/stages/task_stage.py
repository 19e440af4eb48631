"""The task agent's step: votes and descriptions in, posteriors out; holds this instance's tasks."""

from collections.abc import Iterable
from math import log
from typing import NamedTuple

from pipeline.records.posteriors import CERTAIN, TASKS, CloseReason, Posterior, posterior_of
from pipeline.records.tasks import Description
from pipeline.records.votes import Vote
from pipeline.stages.sources import is_older
from pipeline.stages.stop_rules import StopRules

NO_RULES = StopRules()


class Task:
    """A task: the sum of its prior and votes, which labels are in it, and what users said of it.

    It is open while it has no `reason`. `evidence` is summed up of gold as well, which may be
    withdrawn.
    """

    __slots__ = (
        "evidence",
        "gold",
        "labels",
        "prior",
        "reason",
        "reopened",
        "sources",
        "updated_at",
    )

    def __init__(self, evidence: float, updated_at: int) -> None:
        self.evidence = evidence
        self.labels = 0
        self.sources: dict[str, int] = {}
        self.updated_at = updated_at
        self.prior: float | None = None
        self.gold = 0
        self.reason: CloseReason | None = None
        self.reopened = False


class Counted(NamedTuple):
    """The tasks that votes changed, and the timestamps of the labels that were counted."""

    tasks: list[str]
    timestamps: list[int]


class TaskStage:
    """Adds each vote to its task once, heeds what users say of tasks, and closes them by the rules.

    >>> stage = TaskStage(prior_log_odds=0.0)
    >>> stage.open(0)
    >>> vote = ("t1", "w1", 1, 0.5, 1, 42, 1700000000000)
    >>> stage.count(0, source=3, votes=[vote, vote])  # the second is the first again
    Counted(tasks=['t1'], timestamps=[1700000000000])
    >>> posterior = stage.posterior(0, "t1")
    >>> posterior["log_odds"], posterior["labels"], posterior["sources"]
    (0.5, 1, {'3': 42})
    >>> stage.describe(0, {"task": "t1", "gold": -1, "status": "closed"}, offset=7, timestamp=0)
    True
    >>> posterior = stage.posterior(0, "t1")
    >>> posterior["probability"], posterior["gold"], posterior["status"], posterior["reason"]
    (0.0, True, 'closed', 'request')
    """

    def __init__(self, prior_log_odds: float, rules: StopRules = NO_RULES) -> None:
        self.prior_log_odds = prior_log_odds
        self.rules = rules
        self.spent = False
        self.partitions: dict[int, dict[str, Task]] = {}

    @property
    def tasks(self) -> int:
        """How many tasks this instance owns."""
        return sum(map(len, self.partitions.values()))

    def open(self, partition: int) -> None:
        """Become the owner of a partition that nothing is known of yet."""
        self.partitions[partition] = {}

    def close(self, partition: int) -> None:
        """Forget a partition."""
        self.partitions.pop(partition, None)

    def restore(self, partition: int, posterior: Posterior) -> bool:
        """Take up a task where its last posterior left it, unless that is older than known."""
        tasks = self.partitions[partition]
        name = posterior["task"]
        known = tasks.get(name)
        if known is not None and is_older(posterior, known.sources, known.reason is None):
            return False
        is_gold = "gold" in posterior
        evidence = posterior["evidence"] if is_gold else posterior["log_odds"]
        task = tasks[name] = Task(evidence, posterior["updated_at"])
        task.labels = posterior["labels"]
        task.sources = posterior["sources"]
        task.prior = posterior.get("prior")
        task.gold = posterior["prediction"] if is_gold else 0
        if posterior.get("status") == "closed":
            task.reason = posterior.get("reason", "request")
        task.reopened = "reopened" in posterior
        return True

    def count(self, partition: int, source: int, votes: Iterable[Vote]) -> Counted:
        """Add the votes that came from one labels partition.

        Votes of one labels partition come in the order of its offsets, so one that is not above
        the last counted for its task has been counted (it is a replay after a crash).
        """
        tasks = self.partitions[partition]
        origin = str(source)
        are_rules = self.rules.are_set
        changed: dict[str, None] = {}
        timestamps = []
        for name, _worker, _label, vote, labels, offset, timestamp in votes:
            task = tasks.get(name)
            if task is None:
                task = tasks[name] = Task(self.prior_log_odds, timestamp)
            elif task.sources.get(origin, -1) >= offset:
                continue
            task.evidence += vote
            task.labels += labels
            # a new dict: the view and records on their way out hold the one before
            task.sources = {**task.sources, origin: offset}
            if (labels or vote) and timestamp > task.updated_at:
                task.updated_at = timestamp
            if are_rules:
                self._stop(task)
            changed[name] = None
            timestamps.append(timestamp)
        return Counted(list(changed), timestamps)

    def describe(
        self, partition: int, description: Description, offset: int, timestamp: int
    ) -> bool:
        """Heed a record of the tasks topic; False if it was heeded before (it is a replay)."""
        tasks = self.partitions[partition]
        name = description["task"]
        task = tasks.get(name)
        if task is None:
            task = tasks[name] = Task(self.prior_log_odds, timestamp)
        elif task.sources.get(TASKS, -1) >= offset:
            return False
        task.updated_at = max(task.updated_at, timestamp)
        if "prior" in description:
            self._shift(task, description["prior"])
        if "gold" in description:
            task.gold = description["gold"] or 0
        if "status" in description:
            self._set_status(task, description["status"])
        task.sources = {**task.sources, TASKS: offset}
        self._stop(task)
        return True

    def settle(self, partition: int) -> list[str]:
        """Apply the rules to every open task, and tell which of them that closed.

        For when the budget is spent, or the rules have changed since the tasks were last touched.
        """
        if not self.rules.are_set:
            return []
        tasks = self.partitions[partition]
        still_open = [name for name, task in tasks.items() if task.reason is None]
        return [name for name in still_open if self._stop(tasks[name])]

    def posterior(self, partition: int, name: str) -> Posterior:
        """The record of a task as it is now."""
        task = self.partitions[partition][name]
        log_odds = task.gold * CERTAIN if task.gold else task.evidence
        record = posterior_of(name, log_odds, task.labels, task.sources, task.updated_at)
        if task.reason is not None:
            record["status"] = "closed"
            record["reason"] = task.reason
        if task.gold:
            record["gold"] = True
            record["evidence"] = task.evidence
        if task.prior is not None:
            record["prior"] = task.prior
        if task.reopened:
            record["reopened"] = True
        return record

    def _shift(self, task: Task, prior: float | None) -> None:
        before = self._log_odds_of(task.prior)
        after = self._log_odds_of(prior)
        task.prior = prior
        has_votes = task.sources.keys() - {TASKS}
        # without votes: no rounding either
        task.evidence = task.evidence + (after - before) if has_votes else after

    def _log_odds_of(self, prior: float | None) -> float:
        return self.prior_log_odds if prior is None else log(prior / (1 - prior))

    @staticmethod
    def _set_status(task: Task, status: str | None) -> None:
        if status == "closed":
            task.reason, task.reopened = "request", False
        elif status is None:
            task.reason, task.reopened = None, False
        elif task.reason is not None:
            task.reason, task.reopened = None, True

    def _stop(self, task: Task) -> bool:
        """Close a task if a rule says so; whether it did."""
        if task.reason is not None or task.gold or task.reopened:
            return False
        task.reason = self.rules.reason(task.evidence, task.labels)
        if task.reason is None and self.spent:
            task.reason = "budget"
        return task.reason is not None
