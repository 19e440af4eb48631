"""Encoding the records of many workers at once."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from pipeline.inference.beta_interval import beta_interval
from pipeline.inference.labels import Ints
from pipeline.records.workers import Worker, encode_worker
from pipeline.stages.crowd import Crowd


class WorkerRecord(NamedTuple):
    """A record for the workers topic."""

    partition: int
    key: bytes
    value: bytes


def encode_workers(crowd: Crowd, workers: Ints) -> Iterator[WorkerRecord]:
    """The records of these workers."""
    if not len(workers):
        return
    known = crowd.engine.workers(workers)
    all_given = known.given + crowd.engine.prior_labels
    right = known.accuracy * all_given
    # all at once: computed one by one, the intervals would cost more than the rest of a label
    low, high = beta_interval(np.maximum(right, 1e-9), np.maximum(all_given - right, 1e-9))
    on_gold = crowd.engine.on_gold(workers)
    homes = crowd.worker.home[workers].tolist()
    last_seen = crowd.worker.last_seen[workers].tolist()
    columns = (known.given, known.right, known.accuracy, low, high)
    numbers = zip(*(column.tolist() for column in columns), strict=True)
    for row, (given, correct, accuracy, least, most) in enumerate(numbers):
        name = crowd.workers.names[int(workers[row])]
        gold, gold_right = on_gold[row].tolist()
        record: Worker = {
            "worker": name,
            "accuracy": accuracy,
            "interval": [least, most],
            "labels": round(given),
            "correct": correct,
            "gold": gold,
            "gold_right": gold_right,
            "last_seen": last_seen[row],
        }
        if known.theta is not None and known.habits is not None:
            record["theta"] = float(known.theta[row])
            habits = known.habits[row].tolist()
            record["habits"] = dict(zip(crowd.classes.names, habits, strict=True))
        yield WorkerRecord(homes[row], name.encode(), encode_worker(record))
