"""The error as labels arrive, for a crowd whose truth is known."""

from collections.abc import Mapping

from pipeline.records.named_posteriors import AnyPosterior


class ErrorCurve:
    """The share of wrong predictions at 1, 2, ... labels per task on average.

    A missing prediction (0, or `null` if classes have names) counts as a class drawn at random.

    >>> curve = ErrorCurve({"t1": 1, "t2": -1})
    >>> curve.error
    0.5
    >>> curve.learn({"task": "t1", "prediction": 1, "labels": 1})
    >>> curve.learn({"task": "t2", "prediction": 1, "labels": 1})
    >>> curve.learn({"task": "t2", "prediction": -1, "labels": 3})
    >>> curve.labels, curve.points
    (4, [0.5, 0.0])

    >>> pets = ErrorCurve({"t1": "cat"}, classes=4)
    >>> pets.error
    0.75
    >>> pets.learn({"task": "t1", "prediction": "cat", "labels": 1})
    >>> pets.error
    0.0
    """

    def __init__(self, truth: Mapping[str, int | str], classes: int = 2) -> None:
        self._truth = truth
        self._classes = classes
        self._unknown = set(truth)  # without a prediction
        self._wrong: set[str] = set()
        self._labels: dict[str, int] = {}
        self.labels = 0
        self.points: list[float] = []

    def learn(self, posterior: AnyPosterior) -> None:
        """Process a newer posterior of a task; tasks without a known truth are ignored."""
        task, prediction = posterior["task"], posterior["prediction"]
        if task not in self._truth:
            return
        self._unknown.discard(task)
        self._wrong.discard(task)
        if not prediction:
            self._unknown.add(task)
        elif prediction != self._truth[task]:
            self._wrong.add(task)
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
        drawn = len(self._unknown) * (1 - 1 / self._classes)
        return (len(self._wrong) + drawn) / len(self._truth)
