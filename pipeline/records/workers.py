"""Workers, the other output: what is known of each worker."""

from typing import TypedDict

from orjson import dumps


class Worker(TypedDict):
    """What is known of one worker.

    `accuracy` is the probability that their next answer is right, `labels` how many of theirs
    are counted, and `correct` how many of those are expected to be right.
    """

    worker: str
    accuracy: float
    labels: int
    correct: float


def encode_worker(worker: Worker) -> bytes:
    """The value of a worker's record.

    >>> encode_worker({"worker": "w1", "accuracy": 0.75, "labels": 1, "correct": 1.0})
    b'{"worker":"w1","accuracy":0.75,"labels":1,"correct":1.0}'
    """
    return dumps(worker)
