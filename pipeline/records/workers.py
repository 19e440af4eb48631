"""Workers, the other output: what is known of each worker."""

from typing import NotRequired, TypedDict

from orjson import dumps


class Worker(TypedDict):
    """What is known of one worker.

    `accuracy` is the probability that their next answer is right, and with 95 % it lies in the
    `interval` (of the Beta posterior). `labels` says how many of theirs are counted, and `correct`
    how many of those are expected to be right; `gold` how many of them are on gold tasks, and
    `gold_right` how many of those are right. `last_seen` is the timestamp of their newest label
    or skip, in milliseconds.

    Present under settled only: a worker knows the answer with probability `theta` (negative if
    they are right less often than by chance), and otherwise says each class as often as `habits`
    has it, by the name of the class ("-1" and "1" where these are the classes).
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
