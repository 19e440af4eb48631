"""All tasks of a project: the last posterior of each, as published, and orders of them."""

from array import array
from collections.abc import Iterable

import numpy as np
from aiokafka import ConsumerRecord
from orjson import dumps

from pipeline.gateway.view.changes import Changes
from pipeline.gateway.view.latency import Latency
from pipeline.gateway.view.ranking import Floats, LiveRanking
from pipeline.inference.labels import Ints
from pipeline.records.bad import BadRecord
from pipeline.records.named_posteriors import AnyPosterior, parse_any_posterior
from pipeline.status.tasks import LEAST_LABELS, TaskTally


class TaskView:
    """The posteriors, as bytes: about 200 bytes a task besides its record.

    `orders` by name: the least certain first (`disputed`), the last changed first (`recent`), and
    the most certain first (`confidence`).
    """

    def __init__(self, tally: TaskTally) -> None:
        self.tally = tally
        self.changes = Changes()
        self.latency = Latency()
        self._values: list[bytes | None] = []
        self._published = array("q")  # times in milliseconds
        self._updated = array("q")
        self.orders = {
            "disputed": LiveRanking(self._by_doubt),
            "recent": LiveRanking(self._by_time),
            "confidence": LiveRanking(self._by_confidence),
        }

    def take(self, records: Iterable[ConsumerRecord]) -> None:
        """Process records of the posteriors topic, each partition's in order."""
        # of several records of a task only the last is worth parsing
        for record in {record.key: record for record in records}.values():
            if record.value is None:
                self._remove(record)
                continue
            try:
                self._add(record, parse_any_posterior(record.value))
            except BadRecord:
                continue  # not an sbic record: ignore

    def _add(self, record: ConsumerRecord, posterior: AnyPosterior) -> None:
        i = self.tally.add(posterior)
        if i == len(self._values):
            self._values.append(None)
            self._published.append(0)
            self._updated.append(0)
        updated_at = posterior["updated_at"]
        if updated_at > self._updated[i]:  # otherwise it was recomputed without a new label
            self.latency.add(record.timestamp, updated_at)
        value = record.value
        if b"\n" in value or b"\r" in value:  # a newline would end a server-sent event
            value = dumps(posterior)
        self._values[i] = value
        self._published[i] = record.timestamp
        self._updated[i] = updated_at
        self.changes.add(posterior["task"], value)

    def _remove(self, record: ConsumerRecord) -> None:
        i = self.tally.remove((record.key or b"").decode(errors="replace"))
        if i is not None:
            self._values[i] = None

    def get(self, task: str) -> bytes | None:
        """The last posterior of a task, as published; None if there is none."""
        i = self.tally.ids.known(task)
        return None if i is None else self._values[i]

    def values(self, numbers: Iterable[int]) -> list[bytes]:
        """The posteriors of these numbers, without deleted tasks."""
        return [value for i in numbers if (value := self._values[i]) is not None]

    def _by_doubt(self) -> tuple[Ints, Floats]:
        tally = self.tally
        doubts = tally.doubts()
        is_disputed = (tally.label_counts() >= LEAST_LABELS) & (tally.golds() == 0) & (doubts > 0)
        places = np.flatnonzero(is_disputed)
        return places, -doubts[places]

    def _by_confidence(self) -> tuple[Ints, Floats]:
        tally = self.tally
        places = np.flatnonzero((tally.label_counts() > 0) & (tally.golds() == 0))
        return places, tally.doubts()[places]

    def _by_time(self) -> tuple[Ints, Floats]:
        return np.arange(len(self._published)), -np.array(self._published, np.float64)
