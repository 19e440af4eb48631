"""How well the pipeline does on a crowd whose truth is known, as its posteriors come in."""

from collections.abc import Iterable, Mapping

import numpy as np

from pipeline.inference.algorithm import Estimate
from pipeline.records.posteriors import Posterior
from pipeline.tools.sending import Sent
from pipeline.tools.uncounted import Counted, Uncounted


class Scoreboard:
    """The pipeline's error beside that of majority vote on the same labels, and its latency.

    The same labels: majority vote has those that the posteriors read so far count.

    >>> board = Scoreboard({"t1": 1})
    >>> board.error, board.majority_error  # nothing known is a tie, which counts half
    (0.5, 0.5)
    >>> board.sent(Sent(at=7.0, partition=0, first=5, labels=[("t1", "ann", -1)]), now=7.1)
    >>> posterior = {"task": "t1", "log_odds": -0.7, "labels": 1, "sources": {"0": 5}}
    >>> board.learn(posterior, now=7.25)
    >>> board.error, board.majority_error, board.counted, board.latencies
    (1.0, 1.0, 1, [0.25])
    """

    def __init__(self, truth: Mapping[str, int]) -> None:
        self.truth = np.array(list(truth.values()))
        self.index = {task: number for number, task in enumerate(truth)}
        self.log_odds = np.zeros(len(truth))
        self.balance = np.zeros(len(truth))
        self.labels = np.zeros(len(truth), dtype=np.int64)
        self.known: set[str] = set()
        self.uncounted = Uncounted()
        self.counted = 0
        self.latencies: list[float] = []

    def sent(self, sent: Sent, now: float) -> None:
        """Labels went to Kafka."""
        self._count(self.uncounted.add(sent), now)

    def learn(self, posterior: Posterior, now: float) -> None:
        """A posterior came at this time."""
        self.known.add(posterior["task"])
        task = self.index[posterior["task"]]
        self.log_odds[task] = posterior["log_odds"]
        self.labels[task] = posterior["labels"]
        self._count(self.uncounted.learn(posterior), now)

    def _count(self, counted: Iterable[Counted], now: float) -> None:
        for (task, _worker, label), at in counted:
            self.balance[self.index[task]] += label
            self.counted += 1
            self.latencies.append(now - at)

    @property
    def error(self) -> float:
        """Of the pipeline's predictions."""
        return Estimate(self.log_odds).error(self.truth)

    @property
    def majority_error(self) -> float:
        """Of majority vote on the labels that the pipeline has counted."""
        return Estimate(self.balance, is_log_odds=False).error(self.truth)

    def labels_in_posteriors(self) -> int:
        """How many labels the posteriors say they have, all tasks together."""
        return int(self.labels.sum())
