"""Workers, the other output: the estimate of each worker."""

from typing import NotRequired, TypedDict

from orjson import dumps


class Worker(TypedDict):
    """The estimate of one worker.

    `accuracy` is the probability that their next answer is right, and `interval` its central 95 %
    (of the Beta posterior). `labels` is the number of their labels that count, `correct` the
    expected number of right ones, `gold` the number on gold tasks, and `gold_right` the number of
    right ones among these. `last_seen` is the timestamp of their newest label or skip, in
    milliseconds.

    Present under settled only: a worker knows the answer with probability `theta` (negative if they
    are right less often than by chance), and otherwise answers each class with the frequency in
    `habits`, by the name of the class ("-1" and "1" for the default classes).
    """

    worker: str
    accuracy: float
    interval: list[float]
    labels: int
    correct: float
    gold: int
    gold_right: int
    last_seen: int
    theta: NotRequired[float]
    habits: NotRequired[dict[str, float]]


def encode_worker(worker: Worker) -> bytes:
    """The value of a worker's record.

    >>> counts = {"labels": 1, "correct": 1.0, "gold": 1, "gold_right": 1, "last_seen": 0}
    >>> encode_worker({"worker": "w1", "accuracy": 0.75, "interval": [0.29, 0.99], **counts})[:39]
    b'{"worker":"w1","accuracy":0.75,"interva'
    """
    return dumps(worker)
