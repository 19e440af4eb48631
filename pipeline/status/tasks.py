"""What all posteriors come to: counts, how sure the whole is, and the most disputed tasks."""

from array import array
from typing import NamedTuple

import numpy as np

from pipeline.inference.engine.ids import Ids
from pipeline.records.named_posteriors import AnyPosterior
from pipeline.records.posteriors import CLOSE_REASONS

OPEN, GONE = 0, -1
LEAST_LABELS = 2  # of a task that can be disputed


class Disputed(NamedTuple):
    """A task of which little is sure, for all its labels."""

    task: str
    prediction: int | str | None
    confidence: float
    labels: int
    status: str


class TaskTally:
    """A few numbers for each task, of the last posterior that was added of it.

    >>> from pipeline.records.posteriors import posterior_of
    >>> tally = TaskTally()
    >>> for log_odds, labels in ((0.0, 0), (1.0, 2), (-0.1, 3)):
    ...     tally.add(posterior_of(f"t{labels}", log_odds, labels, {}, 0))
    >>> tally.add({**posterior_of("t2", 2.0, 3, {}, 0), "status": "closed", "reason": "labels"})
    >>> tally.labels, len(tally), tally.open, tally.closed["labels"], tally.without_labels
    (6, 3, 2, 1, 1)
    >>> round(tally.expected_wrong, 3)
    1.094
    >>> [task.task for task in tally.most_disputed(10)]
    ['t3', 't2']
    """

    def __init__(self) -> None:
        self._ids = Ids[str]()
        self._predictions = Ids[int | str | None]()
        self._labels = array("q")
        self._doubts = array("d")  # the probability that the prediction is wrong
        self._states = array("b")  # open, closed and why, or gone
        self._golds = array("b")
        self._predicted = array("h")

    def add(self, posterior: AnyPosterior) -> None:
        """Take the newest posterior of a task."""
        i = self._ids.number(posterior["task"])
        if i == len(self._labels):
            for column in self._columns():
                column.append(0)
        self._labels[i] = posterior["labels"]
        if "probabilities" in posterior:
            self._doubts[i] = 1 - posterior["confidence"]  # type: ignore[typeddict-item]
        else:
            probability = posterior["probability"]
            self._doubts[i] = min(probability, 1 - probability)
        is_open = posterior.get("status") == "open"
        reason = posterior.get("reason", "request")
        self._states[i] = OPEN if is_open else 1 + CLOSE_REASONS.index(reason)
        self._golds[i] = "gold" in posterior
        self._predicted[i] = self._predictions.number(posterior["prediction"])

    def remove(self, task: str) -> None:
        """The task is gone."""
        i = self._ids.known(task)
        if i is not None:
            self._states[i], self._labels[i], self._doubts[i], self._golds[i] = GONE, 0, 0.0, 0

    def _columns(self) -> "tuple[array[int] | array[float], ...]":
        return self._labels, self._doubts, self._states, self._golds, self._predicted

    def __len__(self) -> int:
        return len(self._states) - self._states.count(GONE)

    @property
    def labels(self) -> int:
        """Labels that are counted."""
        return sum(self._labels)

    @property
    def open(self) -> int:
        """Tasks that are open."""
        return self._states.count(OPEN)

    @property
    def closed(self) -> dict[str, int]:
        """Tasks that are closed, by reason."""
        return {reason: self._states.count(1 + k) for k, reason in enumerate(CLOSE_REASONS)}

    @property
    def gold(self) -> int:
        """Tasks whose truth is known."""
        return sum(self._golds)

    @property
    def without_labels(self) -> int:
        """Tasks that nobody has answered."""
        return self._labels.count(0) - self._states.count(GONE)

    @property
    def expected_wrong(self) -> float:
        """How many predictions are expected to be wrong: the sum of 1 - max p over all tasks."""
        return float(np.sum(np.frombuffer(self._doubts))) if self._doubts else 0.0

    def most_disputed(self, most: int) -> list[Disputed]:
        """The least certain of the tasks with two labels or more; of equals, those with more."""
        if not self._doubts:
            return []
        doubts, labels = np.frombuffer(self._doubts), np.frombuffer(self._labels, np.int64)
        golds = np.frombuffer(self._golds, np.int8)
        places = np.flatnonzero((labels >= LEAST_LABELS) & (golds == 0) & (doubts > 0))
        if len(places) > most:
            least = np.partition(doubts[places], -most)[-most]
            places = places[doubts[places] >= least]
        order = np.lexsort((-labels[places], -doubts[places]))[:most]
        return [self._disputed(i) for i in places[order].tolist()]

    def _disputed(self, i: int) -> Disputed:
        state = self._states[i]
        return Disputed(
            self._ids.names[i],
            self._predictions.names[self._predicted[i]],
            1 - self._doubts[i],
            self._labels[i],
            "open" if state == OPEN else CLOSE_REASONS[state - 1],
        )
