"""How the error falls as labels come in, where the truth is known."""

from collections.abc import Mapping

from pipeline.records.posteriors import Posterior


class ErrorCurve:
    """The share of wrong predictions, each time the tasks have one more label on average.

    No prediction (log-odds of exactly 0) is half wrong.

    >>> curve = ErrorCurve({"t1": 1, "t2": -1})
    >>> curve.error
    0.5
    >>> curve.learn({"task": "t1", "prediction": 1, "labels": 1})
    >>> curve.learn({"task": "t2", "prediction": 1, "labels": 1})
    >>> curve.learn({"task": "t2", "prediction": -1, "labels": 3})
    >>> curve.labels, curve.points
    (4, [0.5, 0.0])
    """

    def __init__(self, truth: Mapping[str, int]) -> None:
        self._truth = truth
        self._halves_wrong = dict.fromkeys(truth, 1)
        self._labels: dict[str, int] = {}
        self._sum_of_halves = len(truth)
        self.labels = 0
        self.points: list[float] = []

    def learn(self, posterior: Posterior) -> None:
        """Take a posterior, later than those before of its task; others' tasks do not matter."""
        task = posterior["task"]
        if task not in self._truth:
            return
        halves = 1 - posterior["prediction"] * self._truth[task]
        self._sum_of_halves += halves - self._halves_wrong[task]
        self._halves_wrong[task] = halves
        self.labels += posterior["labels"] - self._labels.get(task, 0)
        self._labels[task] = posterior["labels"]
        while self.labels >= (len(self.points) + 1) * len(self._truth):
            self.points.append(self.error)

    @property
    def tasks(self) -> int:
        """How many of the tasks have a posterior."""
        return len(self._labels)

    @property
    def error(self) -> float:
        """The share of wrong predictions now."""
        return self._sum_of_halves / (2 * len(self._truth))
