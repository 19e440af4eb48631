"""The task agent's step: votes in, posteriors out; holds the tasks of this instance."""

from collections.abc import Iterable
from typing import NamedTuple

from pipeline.records.posteriors import Posterior, posterior_of
from pipeline.records.votes import Vote
from pipeline.stages.sources import is_older


class Task:
    """A task: the sum of its votes, and which labels are in it."""

    __slots__ = ("labels", "log_odds", "sources", "updated_at")

    def __init__(
        self, log_odds: float, labels: int, sources: dict[str, int], updated_at: int
    ) -> None:
        self.log_odds = log_odds
        self.labels = labels
        self.sources = sources
        self.updated_at = updated_at


class Counted(NamedTuple):
    """The tasks that votes changed, and the timestamps of the labels that were counted."""

    tasks: list[str]
    timestamps: list[int]


class TaskStage:
    """Adds each vote to its task once.

    >>> stage = TaskStage(prior_log_odds=0.0)
    >>> stage.open(0)
    >>> vote = ("t1", "w1", 1, 0.5, 1, 42, 1700000000000)
    >>> stage.count(0, source=3, votes=[vote, vote])  # the second is the first again
    Counted(tasks=['t1'], timestamps=[1700000000000])
    >>> posterior = stage.posterior(0, "t1")
    >>> posterior["log_odds"], posterior["labels"], posterior["sources"]
    (0.5, 1, {'3': 42})
    """

    def __init__(self, prior_log_odds: float) -> None:
        self.prior_log_odds = prior_log_odds
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
        known = tasks.get(posterior["task"])
        if known is not None and is_older(posterior["sources"], known.sources):
            return False
        tasks[posterior["task"]] = Task(
            posterior["log_odds"],
            posterior["labels"],
            posterior["sources"],
            posterior["updated_at"],
        )
        return True

    def count(self, partition: int, source: int, votes: Iterable[Vote]) -> Counted:
        """Add the votes that came from one labels partition.

        Votes of one labels partition come in the order of its offsets, so one that is not above
        the last counted for its task has been counted (it is a replay after a crash).
        """
        tasks = self.partitions[partition]
        origin = str(source)
        changed: dict[str, None] = {}
        timestamps = []
        for name, _worker, _label, vote, labels, offset, timestamp in votes:
            task = tasks.get(name)
            if task is None:
                task = tasks[name] = Task(self.prior_log_odds, 0, {}, timestamp)
            elif task.sources.get(origin, -1) >= offset:
                continue
            task.log_odds += vote
            task.labels += labels
            # a new dict: the view and records on their way out hold the one before
            task.sources = {**task.sources, origin: offset}
            if (labels or vote) and timestamp > task.updated_at:
                task.updated_at = timestamp
            changed[name] = None
            timestamps.append(timestamp)
        return Counted(list(changed), timestamps)

    def posterior(self, partition: int, name: str) -> Posterior:
        """The record of a task as it is now."""
        task = self.partitions[partition][name]
        return posterior_of(name, task.log_odds, task.labels, task.sources, task.updated_at)
