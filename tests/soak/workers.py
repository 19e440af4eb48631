"""What the record of each worker has to say, field by field.

Under Fast SBIC a record is as of the worker's last label, and under settled `accuracy` and `theta`
lean on the crowd of that moment. So before the records are compared, when all else is at rest, each
worker gives a last label, on a task that nobody else answers.
"""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from sbic.engine.engine import Engine
from sbic.engine.labels import Ids
from sbic.infer.intervals import beta_interval

EXACT = 1e-9
AT_REST = 1e-3  # for each label: where instances stop telling each other
CROWD = 0.02  # what the last labels of others move of the crowd's worth


def last_task(worker: str) -> str:
    """The task of a worker's last label."""
    return f"last-{worker}"


@dataclass
class ExpectedWorker:
    """What a worker's labels come to."""

    labels: int = 0
    correct: float = 0.0
    gold: int = 0
    gold_right: int = 0
    last_seen: int = 0

    def add(self, label: int, timestamp: int, posterior: Any) -> None:
        """One more label that stands."""
        p = posterior["probability"]
        self.labels += 1
        self.correct += p if label == 1 else 1 - p
        self.last_seen = max(self.last_seen, timestamp)
        if "gold" in posterior:
            self.gold += 1
            self.gold_right += posterior["prediction"] == label


class WorkerRecords:
    """Compares records with what the labels that stand come to."""

    def __init__(self, engine: Engine, names: Ids[str]) -> None:
        """Begin with the labels of all in an engine of their own, at rest under settled."""
        self.engine = engine
        self.names = names
        self.expected: defaultdict[str, ExpectedWorker] = defaultdict(ExpectedWorker)

    def differences(self, records: dict[str, Any]) -> Iterator[str]:
        """Where a record differs."""
        for worker, expected in self.expected.items():
            record = records.get(worker, {})
            for field, value, tolerance in self._fields(worker, expected, record):
                found = record.get(field)
                found = list(found.values()) if isinstance(found, dict) else found
                if found is None or np.abs(np.subtract(found, value)).max() > tolerance:
                    yield f"{worker} should have {field} {value}, and the record is {record}"

    def _fields(
        self, worker: str, expected: ExpectedWorker, record: Any
    ) -> Iterator[tuple[str, Any, float]]:
        for field in ("labels", "gold", "gold_right", "last_seen"):
            yield field, getattr(expected, field), 0
        known = self.engine.workers([self.names.number(worker)])
        inside = known.right[0] if known.theta is not None else expected.correct
        yield "correct", inside, AT_REST * expected.labels
        if not record:
            return
        given = expected.labels + self.engine.prior_labels
        right = record["accuracy"] * given
        low, high = beta_interval(np.maximum([right], EXACT), np.maximum([given - right], EXACT))
        # under settled how alike workers are, which it leans on, is of that moment, too
        yield "interval", [low[0], high[0]], EXACT if known.theta is None else AT_REST
        if known.theta is None or known.habits is None:
            alpha, beta = self.engine.prior.alpha, self.engine.prior.beta
            accuracy = (record["correct"] + alpha) / (record["labels"] + alpha + beta)
            yield "accuracy", accuracy, EXACT
        else:
            yield "accuracy", known.accuracy[0], CROWD
            yield "theta", known.theta[0], 2 * CROWD
            # of guesses, which are few where theta is large
            yield "habits", known.habits[0], 2 * CROWD / max(1 - known.theta[0], CROWD)
