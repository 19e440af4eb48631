"""The error and latency of the pipeline on a crowd whose truth is known."""

from collections.abc import Iterable, Mapping

import numpy as np

from pipeline.classes import SIGNS, Classes
from pipeline.inference.algorithm import ClassEstimate
from pipeline.kafka.sending import Sent
from pipeline.records.named_posteriors import AnyPosterior
from pipeline.simulation.error_curve import ErrorCurve
from pipeline.transfer.uncounted import Counted, Uncounted


class Scoreboard:
    """The pipeline's error, that of majority vote on the same labels, and the latency.

    Majority vote is taken on the labels that are counted in the posteriors read so far.

    >>> from pipeline.kafka.sending import Label
    >>> board = Scoreboard({"t1": 1})
    >>> board.error, board.majority_error  # before any label: a tie, which counts half
    (0.5, 0.5)
    >>> board.sent(Sent(at=7.0, partition=0, first=5, labels=[Label("t1", "ann", -1)]), now=7.1)
    >>> posterior = {"task": "t1", "prediction": -1, "labels": 1, "sources": {"0": 5}}
    >>> board.learn(posterior, now=7.25)
    >>> board.error, board.majority_error, board.counted, board.latencies
    (1.0, 1.0, 1, [0.25])
    """

    def __init__(self, truth: Mapping[str, int | str], classes: Classes = SIGNS) -> None:
        self.truth = np.array([classes.numbers[label] for label in truth.values()])
        self.index = {task: number for number, task in enumerate(truth)}
        self.votes = np.zeros((len(truth), len(classes)))
        self.numbers = classes.numbers
        self.curve = ErrorCurve(truth, len(classes))
        self.uncounted = Uncounted()
        self.counted = 0
        self.latencies: list[float] = []

    def sent(self, sent: Sent, now: float) -> None:
        """Add labels that were acknowledged."""
        self._count(self.uncounted.add(sent), now)

    def learn(self, posterior: AnyPosterior, now: float) -> None:
        """Process a posterior that was read at the time `now`."""
        self.curve.learn(posterior)
        self._count(self.uncounted.learn(posterior), now)

    def _count(self, counted: Iterable[Counted], now: float) -> None:
        for label, at in counted:
            self.votes[self.index[label.task], self.numbers[label.label]] += 1
            self.counted += 1
            self.latencies.append(now - at)

    @property
    def error(self) -> float:
        """The error of the pipeline's predictions."""
        return self.curve.error

    @property
    def majority_error(self) -> float:
        """The error of majority vote on the labels that the pipeline has counted."""
        return ClassEstimate(self.votes, is_probability=False).error(self.truth)

    @property
    def knows_all_tasks(self) -> bool:
        """Whether each task has a posterior."""
        return self.curve.tasks == len(self.index)

    @property
    def labels_in_posteriors(self) -> int:
        """The sum of the numbers of labels in all posteriors."""
        return self.curve.labels
