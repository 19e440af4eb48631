"""Aggregates of all posteriors and of all workers' records."""

from array import array
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sbic.engine.labels import Ids
from sbic.engine.outside import Moments, prediction_powered
from sbic.infer.judging import contradicts_expected
from sbic.wire.posteriors import CLOSE_REASONS, Posterior, doubt_of
from sbic.wire.workers import MOST_PRICE, UNITS, units_of

OPEN, GONE = 0, -1
LEAST_LABELS = 2  # of a task that can be disputed
BINS = 20


class Disputed(NamedTuple):
    """A task with an uncertain prediction in spite of its labels."""

    task: str
    prediction: int | None
    confidence: float
    labels: int
    status: str


class Honesty(NamedTuple):
    """How far the expected number of wrong predictions can be believed.

    `gold` tasks have labels and a known truth: `wrong` of them would have been predicted wrongly,
    where `expected` were expected to be. With two or more of them the share of wrong predictions
    lies in `interval` with a probability of 90 %, if they were drawn at random. `votes` is how many
    independent votes the labels of a task are worth, in the median, under settled.
    """

    gold: int
    wrong: int
    expected: float
    interval: tuple[float, float] | None
    votes: float | None

    @property
    def is_calibrated(self) -> bool:
        """Whether gold calibrates confidence: under settled, as soon as there is any."""
        return self.gold > 0 and self.votes is not None

    @property
    def gold_to_halve(self) -> int | None:
        """How many more gold tasks would halve the interval: its width falls with their root."""
        return None if self.interval is None else 3 * self.gold

    @property
    def is_contradicted(self) -> bool:
        """Whether gold differs from what was expected of it by more than chance.

        >>> Honesty(30, 12, 3.0, None, None).is_contradicted
        True
        """
        return contradicts_expected(self.gold, self.wrong, self.expected)


class TaskTally:
    """A few numbers for each task, of its last posterior.

    Counts are kept incrementally, so that reading them does not depend on the number of tasks.

    >>> tally = TaskTally()
    >>> for p, prediction, labels in ((0.5, None, 0), (0.731, 1, 2), (0.475, 0, 3)):
    ...     number = tally.add(Posterior(f"t{labels}", [1 - p, p], prediction, labels, {}))
    >>> tally.add(Posterior("t2", [0.119, 0.881], 1, 3, {}, reason="labels"))
    1
    >>> tally.labels, len(tally), tally.open, tally.closed["labels"], tally.without_labels
    (6, 3, 2, 1, 1)
    >>> round(tally.expected_wrong, 3)
    1.094
    >>> [task.task for task in tally.most_disputed(10)]
    ['t3', 't2']
    >>> [tally.bins[k] for k in (10, 17)]  # 0.52 and 0.88
    [1, 1]
    """

    def __init__(self) -> None:
        self.ids = Ids[str]()
        self.labels = 0
        """Labels that are counted."""
        self.gold = 0
        """Tasks whose truth is known."""
        self.without_labels = 0
        """Tasks without any label."""
        self.bins = [0] * BINS
        """A histogram of confidence from 0 to 1, of tasks with labels except gold."""
        self._in_state = [0] * (1 + len(CLOSE_REASONS))
        self._labels = array("q")
        self._doubts = array("d")  # the probability that the prediction is wrong
        self._states = array("b")  # open, closed and why, or gone
        self._golds = array("b")
        self._predicted = array("h")
        self._votes = array("d")
        self._gold_doubts = array("d")  # of gold: as if its truth were not known
        self._gold_wrong = array("b")

    def add(self, posterior: Posterior) -> int:
        """Add the newest posterior of a task; returns the number of the task."""
        i = self.ids.number(posterior.task)
        if i == len(self._labels):
            for column in self._columns():
                column.append(0)
            self._states[i] = GONE
        self._count(i, -1)
        self._labels[i] = posterior.labels
        self._doubts[i] = posterior.doubt
        reason, evidence, truth = posterior.reason, posterior.evidence, posterior.prediction
        self._states[i] = OPEN if reason is None else 1 + CLOSE_REASONS.index(reason)
        self._golds[i] = evidence is not None
        self._predicted[i] = -1 if truth is None else truth
        self._votes[i] = posterior.effective_votes
        if evidence is not None and truth is not None:
            self._gold_doubts[i] = doubt_of(evidence)
            self._gold_wrong[i] = evidence[truth] < max(evidence)
        self._count(i, 1)
        return i

    def remove(self, task: str) -> int | None:
        """Forget a task that is gone; return its number, if it was known."""
        i = self.ids.known(task)
        if i is not None:
            self._count(i, -1)
            self._states[i], self._labels[i], self._doubts[i], self._golds[i] = GONE, 0, 0.0, 0
        return i

    def _count(self, i: int, step: int) -> None:
        """Add a task to the counts, or take it out of them."""
        state, labels = self._states[i], self._labels[i]
        if state == GONE:
            return
        self._in_state[state] += step
        self.labels += step * labels
        if self._golds[i]:
            self.gold += step
        elif labels:
            self.bins[min(int((1 - self._doubts[i]) * BINS), BINS - 1)] += step
        if not labels:
            self.without_labels += step

    def _columns(self) -> "tuple[array[int] | array[float], ...]":
        known = self._labels, self._doubts, self._states, self._golds, self._predicted
        return *known, self._votes, self._gold_doubts, self._gold_wrong

    def __len__(self) -> int:
        return sum(self._in_state)

    @property
    def open(self) -> int:
        """Tasks that are open."""
        return self._in_state[OPEN]

    @property
    def closed(self) -> dict[str, int]:
        """Tasks that are closed, by reason."""
        return dict(zip(CLOSE_REASONS, self._in_state[1:], strict=True))

    @property
    def expected_wrong(self) -> float:
        """How many predictions are expected to be wrong: the sum of 1 - max p over all tasks."""
        return float(np.sum(np.frombuffer(self._doubts))) if self._doubts else 0.0

    @property
    def honesty(self) -> Honesty:
        """How far `expected_wrong` can be believed."""
        labels, doubts = self.label_counts(), self.doubts()
        golds, votes = self.golds() == 1, np.array(self._votes)
        is_gold, others = golds & (labels > 0), ~golds & (labels > 0)
        wrong, interval = np.array(self._gold_wrong)[is_gold].astype(np.float64), None
        expected = np.array(self._gold_doubts)[is_gold]
        if len(wrong) > 1 and others.any():
            columns = (column[:, None] for column in (doubts[others], expected, wrong))
            (share,), (half,) = prediction_powered(Moments.of(*columns))
            interval = max(0.0, float(share - half)), min(1.0, float(share + half))
        weighed = votes[votes > 0]
        return Honesty(
            len(wrong),
            int(wrong.sum()),
            float(expected.sum()),
            interval,
            float(np.median(weighed)) if len(weighed) else None,
        )

    def most_disputed(self, most: int) -> list[Disputed]:
        """Return the least certain tasks with two labels or more; of equals, those with more."""
        if not self._doubts:
            return []
        doubts, labels, golds = self.doubts(), self.label_counts(), self.golds()
        places = np.flatnonzero((labels >= LEAST_LABELS) & (golds == 0) & (doubts > 0))
        if len(places) > most:
            least = np.partition(doubts[places], -most)[-most]
            places = places[doubts[places] >= least]
        order = np.lexsort((-labels[places], -doubts[places]))[:most]
        return [self._disputed(i) for i in places[order].tolist()]

    def prediction(self, i: int) -> int | None:
        """Return the class that is predicted for a task, if one is."""
        return None if self._predicted[i] < 0 else self._predicted[i]

    def doubt(self, i: int) -> float:
        """How probable it is that the prediction for a task is wrong."""
        return self._doubts[i]

    def doubts(self) -> NDArray[np.float64]:
        """How probable it is that each prediction is wrong, by the number of the task."""
        return np.array(self._doubts)

    def label_counts(self) -> NDArray[np.int64]:
        """How many labels each task has."""
        return np.array(self._labels)

    def golds(self) -> NDArray[np.int8]:
        """1 for each task whose truth is known, otherwise 0."""
        return np.array(self._golds)

    def _disputed(self, i: int) -> Disputed:
        state = self._states[i]
        return Disputed(
            self.ids.names[i],
            self.prediction(i),
            1 - self._doubts[i],
            self._labels[i],
            "open" if state == OPEN else CLOSE_REASONS[state - 1],
        )


class Rated(NamedTuple):
    """A worker with accuracy, interval and number of labels."""

    worker: str
    accuracy: float
    interval: tuple[float, float]
    labels: int


class WorkerTally:
    """A few numbers for each worker, of their last record.

    The best are those with the highest lower end of the interval, the worst those with the lowest
    upper end: workers with few labels are neither.

    >>> tally = WorkerTally()
    >>> for name, low, high in (("ann", 0.8, 0.9), ("new", 0.2, 0.99), ("bob", 0.3, 0.5)):
    ...     known = {"worker": name, "accuracy": 0.5, "interval": [low, high], "labels": 9}
    ...     number = tally.add(known)
    >>> [rated.worker for rated in tally.best(2)], [rated.worker for rated in tally.worst(2)]
    (['ann', 'bob'], ['bob', 'ann'])
    >>> for changes in ({"drifting": 7, "contradicted": True}, {"drifting": 7}):
    ...     number = tally.add({**known, **changes})
    >>> tally.drifting, tally.contradicted
    (['bob'], [])
    """

    def __init__(self) -> None:
        self.ids = Ids[str]()
        self._accuracies, self._lows, self._highs = array("d"), array("d"), array("d")
        self._labels = array("q")
        self._drifting: dict[int, int] = {}  # since when
        self._contradicted: dict[int, None] = {}
        self._units: dict[int, int] = {}  # of money that the labels of each cost
        self._spent = 0

    def add(self, worker: Mapping[str, Any]) -> int:
        """Add the newest record of a worker; returns the number of the worker."""
        j = self.ids.number(worker["worker"])
        if j == len(self._labels):
            for column in (self._accuracies, self._lows, self._highs):
                column.append(0.0)
            self._labels.append(0)
        self._accuracies[j] = worker["accuracy"]
        self._lows[j], self._highs[j] = worker["interval"]
        self._labels[j] = worker["labels"]
        self._pay(j, worker.get("price"))
        self._drifting.pop(j, None)
        self._contradicted.pop(j, None)
        if isinstance(worker.get("drifting"), int):
            self._drifting[j] = worker["drifting"]
        if worker.get("contradicted") is True:
            self._contradicted[j] = None
        return j

    def _pay(self, j: int, price: object) -> None:
        self._spent -= self._units.pop(j, 0)
        if isinstance(price, int | float) and 0 < price <= MOST_PRICE:
            self._units[j] = (units_of(price) or 0) * self._labels[j]
            self._spent += self._units[j]

    @property
    def spent(self) -> float:
        """What all labels cost.

        >>> tally = WorkerTally()
        >>> known = {"worker": "ann", "accuracy": 0.5, "interval": [0.3, 0.7], "labels": 9}
        >>> for price in (3, 0.1):
        ...     number = tally.add({**known, "price": price})
        >>> tally.spent
        0.9
        """
        return self._spent / UNITS

    @property
    def drifting(self) -> list[str]:
        """The workers who answer otherwise than before, the last to change first."""
        order = sorted(self._drifting, key=lambda j: -self._drifting[j])
        return [self.ids.names[j] for j in order]

    @property
    def contradicted(self) -> list[str]:
        """The workers whose accuracy on gold is not what labels say of them."""
        return [self.ids.names[j] for j in self._contradicted]

    def __len__(self) -> int:
        return len(self._labels)

    def best(self, most: int) -> list[Rated]:
        """Those with the highest lower end of the interval."""
        return self._first(-self.lows(), most)

    def worst(self, most: int) -> list[Rated]:
        """Those with the lowest upper end of the interval."""
        return self._first(self.highs(), most)

    def low(self, j: int) -> float:
        """Return the lower end of a worker's interval."""
        return self._lows[j]

    def high(self, j: int) -> float:
        """Return the upper end of a worker's interval."""
        return self._highs[j]

    def labels_of(self, j: int) -> int:
        """How many labels a worker has given."""
        return self._labels[j]

    def lows(self) -> NDArray[np.float64]:
        """Return the lower end of each worker's interval, by the number of the worker."""
        return np.array(self._lows)

    def highs(self) -> NDArray[np.float64]:
        """Return the upper end of each worker's interval."""
        return np.array(self._highs)

    def label_counts(self) -> NDArray[np.int64]:
        """How many labels each worker has given."""
        return np.array(self._labels)

    def accuracy(self, worker: str) -> float | None:
        """Return the accuracy of a worker; None if the worker is unknown."""
        j = self.ids.known(worker)
        return None if j is None else self._accuracies[j]

    def _first(self, scores: NDArray[np.float64], most: int) -> list[Rated]:
        places = np.flatnonzero(self.label_counts())
        order = places[np.argsort(scores[places], kind="stable")][:most].tolist()
        return [
            Rated(
                self.ids.names[j],
                self._accuracies[j],
                (self._lows[j], self._highs[j]),
                self._labels[j],
            )
            for j in order
        ]
