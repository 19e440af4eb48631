"""Records for the workers topic: changed workers, at most once a second."""

from collections.abc import Callable
from time import thread_time

from numpy.typing import ArrayLike

from pipeline.agents.throttle import Throttle
from pipeline.batched.producer import Outbox, Row
from pipeline.stages.changes import Changes
from pipeline.stages.crowd import Crowd
from pipeline.stages.worker_records import encode_workers
from pipeline.topics import Topics

SECONDS_BETWEEN = 1.0, 10.0  # at least, at most


class WorkerUpdates:
    """Workers whose records are to be published."""

    def __init__(self, crowd: Crowd, topics: Topics, notify: Callable[[], None]) -> None:
        self.crowd = crowd
        self.topic = topics.workers.name
        self.changed = Changes()
        self.throttle = Throttle(*SECONDS_BETWEEN, notify)

    def add(self, workers: ArrayLike) -> None:
        """Publish these workers when the next publication is due."""
        self.changed.add(workers)

    def add_to(self, outbox: Outbox, *, is_flushing: bool) -> None:
        """Add the records of own workers that have changed, if they are due or flushed."""
        if not self.changed or not (self.throttle.is_due or is_flushing):
            return
        begun = thread_time()
        changed = self.changed.take()
        own = changed[self.crowd.has_workers_of[self.crowd.worker.home[changed]]]
        for partition, key, value in encode_workers(self.crowd, own):
            outbox.add(self.topic, partition, Row(key, value))
        self.throttle.published(thread_time() - begun)
