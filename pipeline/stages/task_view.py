"""The log-odds of every task as one instance sees them: its own votes at once, others' soon."""

from typing import NamedTuple

from pipeline.inference.one_coin import OneCoin
from pipeline.partitioner import partition_of


class Worker:
    """A worker of this instance: their answers, and the counts from which they are weighed."""

    __slots__ = ("answers", "correct", "labels", "name")

    def __init__(self, name: str) -> None:
        self.name = name
        self.labels = 0
        self.correct = 0.0
        self.answers: dict[str, Answer] = {}  # by task


class Answer(NamedTuple):
    """A worker's answer to a task, and the vote it was given."""

    label: int
    vote: float


class Pending(NamedTuple):
    """A vote of this instance that no posterior has counted yet."""

    source: str
    offset: int
    vote: float


class Belief:
    """What this instance knows of a task.

    `log_odds` are those of the last posterior read (at `offset` of its topic, counting the labels
    in `sources`) and of the `pending` votes. `crowd` has the workers of this instance who
    answered: their counts follow the log-odds.
    """

    __slots__ = ("crowd", "log_odds", "offset", "partition", "pending", "sources")

    def __init__(self, log_odds: float, partition: int) -> None:
        self.log_odds = log_odds
        self.partition = partition
        self.offset = -1
        self.sources: dict[str, int] = {}
        self.pending: list[Pending] = []
        self.crowd: dict[Worker, int] = {}


class TaskView:
    """Every task's belief, with read-your-writes.

    >>> from pipeline.inference.algorithm import Prior
    >>> view = TaskView(OneCoin(Prior()), prior_log_odds=0.0, partitions=8)
    >>> belief = view["t1"]
    >>> view.add(belief, Pending("0", 42, 0.5))
    >>> belief.log_odds
    0.5

    Then a posterior arrives that has another instance's vote of 2.0, and not yet ours; then one
    that has both:

    >>> view.learn("t1", 2.0, {"1": 7}, offset=0); belief.log_odds
    2.5
    >>> view.learn("t1", 2.5, {"1": 7, "0": 42}, offset=1); belief.log_odds, belief.pending
    (2.5, [])
    """

    def __init__(self, model: OneCoin, prior_log_odds: float, partitions: int) -> None:
        self.model = model
        self.prior_log_odds = prior_log_odds
        self.partitions = partitions
        self.beliefs: dict[str, Belief] = {}

    def __len__(self) -> int:
        return len(self.beliefs)

    def __getitem__(self, task: str) -> Belief:
        """The belief of a task; of a new one, the prior."""
        belief = self.beliefs.get(task)
        if belief is None:
            partition = partition_of(task.encode(), self.partitions)
            belief = self.beliefs[task] = Belief(self.prior_log_odds, partition)
        return belief

    def add(self, belief: Belief, vote: Pending) -> None:
        """Count a vote of this instance at once, ahead of its posterior."""
        self.move(belief, belief.log_odds + vote.vote)
        belief.pending.append(vote)

    def counts(self, belief: Belief, source: str, offset: int) -> bool:
        """Whether the last posterior read has the label at this place."""
        return belief.sources.get(source, -1) >= offset

    def learn(self, task: str, log_odds: float, sources: dict[str, int], offset: int) -> None:
        """Take a posterior that was published at `offset`; an older one than known is ignored."""
        belief = self[task]
        if offset <= belief.offset:
            return
        belief.offset = offset
        belief.sources = sources
        if belief.pending:
            get = sources.get
            belief.pending = [v for v in belief.pending if get(v.source, -1) < v.offset]
            # one by one and in order, as the task agent adds them: the same to the last bit
            for vote in belief.pending:
                log_odds += vote.vote
        self.move(belief, log_odds)

    def move(self, belief: Belief, log_odds: float) -> None:
        """Set the log-odds of a task; the counts of those who answered it follow."""
        if log_odds == belief.log_odds:
            return
        if belief.crowd:
            shift = self.model.shift(belief.log_odds, log_odds)
            for worker, label in belief.crowd.items():
                worker.correct += shift[label]
        belief.log_odds = log_odds
