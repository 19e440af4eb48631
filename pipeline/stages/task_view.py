"""The log-odds of every task as one instance sees them: its own votes at once, others' soon."""

from pipeline.inference.one_coin import OneCoin
from pipeline.partitioner import partition_of
from pipeline.records.posteriors import Posterior


class Worker:
    """A worker of this instance: their answers, and the counts from which they are weighed.

    `gold` counts their answers on gold tasks, `gold_right` those of them that are right, and
    `last_seen` is the timestamp of their newest label or skip, in milliseconds.
    """

    __slots__ = (
        "answers",
        "correct",
        "gold",
        "gold_right",
        "labels",
        "last_seen",
        "name",
        "skipped",
    )

    def __init__(self, name: str) -> None:
        self.name = name
        self.labels = 0
        self.correct = 0.0
        self.gold = 0
        self.gold_right = 0
        self.last_seen = 0
        self.answers: dict[str, Answer] = {}  # by task
        self.skipped: set[str] = set()  # tasks


Answer = tuple[int, float]
"""A worker's label for a task, and the vote it was given; a plain tuple, made for every label."""

Pending = tuple[str, int, float, int]
"""A vote that no posterior has counted yet: labels partition, offset, vote and labels."""


class Belief:
    """What this instance knows of a task.

    `log_odds` are those of the last posterior read (at `offset` of its topic, counting the labels
    in `sources`) and of the `pending` votes. `crowd` has the workers of this instance who
    answered: their counts follow the log-odds. `labels` counts those of `pending` too. `gold` is
    the known truth, or 0; `open` tasks are assigned.
    """

    __slots__ = (
        "crowd",
        "gold",
        "labels",
        "log_odds",
        "offset",
        "open",
        "partition",
        "pending",
        "sources",
    )

    def __init__(self, log_odds: float, partition: int) -> None:
        self.log_odds = log_odds
        self.partition = partition
        self.labels = 0
        self.open = True
        self.gold = 0
        self.offset = -1
        self.sources: dict[str, int] = {}
        self.pending: list[Pending] = []
        self.crowd: dict[Worker, int] = {}


class TaskView:
    """Every task's belief, with read-your-writes.

    `labels` are those of all tasks. Whoever wants to know what moved sets `changed` to a dict, in
    which tasks are then put as they change, and empties it.

    >>> from pipeline.inference.algorithm import Prior
    >>> from pipeline.records.posteriors import posterior_of
    >>> view = TaskView(OneCoin(Prior()), prior_log_odds=0.0, partitions=8)
    >>> belief = view["t1"]
    >>> view.add("t1", belief, ("0", 42, 0.5, 1))
    >>> belief.log_odds, belief.labels
    (0.5, 1)

    Then a posterior arrives that has another instance's vote of 2.0, and not yet ours; then one
    that has both:

    >>> view.learn(posterior_of("t1", 2.0, 1, {"1": 7}, 0), offset=0); belief.log_odds
    2.5
    >>> view.learn(posterior_of("t1", 2.5, 2, {"1": 7, "0": 42}, 0), offset=1); belief.pending
    []
    """

    def __init__(self, model: OneCoin, prior_log_odds: float, partitions: int) -> None:
        self.model = model
        self.prior_log_odds = prior_log_odds
        self.partitions = partitions
        self.beliefs: dict[str, Belief] = {}
        self.labels = 0
        self.changed: dict[str, None] | None = None

    def __len__(self) -> int:
        return len(self.beliefs)

    def __getitem__(self, task: str) -> Belief:
        """The belief of a task; of a new one, the prior."""
        belief = self.beliefs.get(task)
        if belief is None:
            belief = self.beliefs[task] = Belief(self.prior_log_odds, self.home(task))
        return belief

    def home(self, task: str) -> int:
        """The partition of a task."""
        return partition_of(task.encode(), self.partitions)

    def add(self, task: str, belief: Belief, pending: Pending) -> None:
        """Count a vote of this instance at once, ahead of its posterior."""
        _source, _offset, vote, labels = pending
        self.vote(belief, vote)
        belief.pending.append(pending)
        belief.labels += labels
        self.labels += labels
        if self.changed is not None:
            self.changed[task] = None

    def vote(self, belief: Belief, vote: float) -> None:
        """Move the log-odds of a task by a vote; those of gold stay."""
        if not belief.gold:
            self.move(belief, belief.log_odds + vote)

    def counts(self, belief: Belief, source: str, offset: int) -> bool:
        """Whether the last posterior read has the label at this place."""
        return belief.sources.get(source, -1) >= offset

    def learn(self, posterior: Posterior, offset: int) -> None:
        """Take a posterior that was published at `offset`; an older one than known is ignored."""
        task = posterior["task"]
        belief = self[task]
        if offset <= belief.offset:
            return
        log_odds = posterior["log_odds"]
        labels = posterior["labels"]
        sources = posterior["sources"]
        gold = posterior["prediction"] if "gold" in posterior else 0
        belief.offset = offset
        belief.sources = sources
        if belief.pending:
            get = sources.get
            belief.pending = [vote for vote in belief.pending if get(vote[0], -1) < vote[1]]
            # one by one and in order, as the task agent adds them: the same to the last bit
            for _source, _offset, vote, more in belief.pending:
                labels += more
                if not gold:
                    log_odds += vote
        self.labels += labels - belief.labels
        belief.labels = labels
        belief.open = posterior.get("status") != "closed"
        if gold != belief.gold:
            self._set_gold(belief, gold)
        self.move(belief, log_odds)
        if self.changed is not None:
            self.changed[task] = None

    @staticmethod
    def _set_gold(belief: Belief, gold: int) -> None:
        """The truth is known now, or no longer; those who answered have their answers checked."""
        for worker, label in belief.crowd.items():
            worker.gold += (gold != 0) - (belief.gold != 0)
            worker.gold_right += (label == gold) - (label == belief.gold)
        belief.gold = gold

    def move(self, belief: Belief, log_odds: float) -> None:
        """Set the log-odds of a task; the counts of those who answered it follow."""
        if log_odds == belief.log_odds:
            return
        if belief.crowd:
            shift = self.model.shift(belief.log_odds, log_odds)
            for worker, label in belief.crowd.items():
                worker.correct += shift[label]
        belief.log_odds = log_odds
