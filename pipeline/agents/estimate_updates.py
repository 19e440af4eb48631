"""Records for the estimates topic: changed tasks and workers, at most ten times a second."""

from collections.abc import Callable
from time import thread_time

from pipeline.agents.throttle import Throttle
from pipeline.batched.producer import Outbox, Row
from pipeline.inference.labels import Ints
from pipeline.stages.changes import Changes
from pipeline.stages.exchange import EstimateRecords, Exchange
from pipeline.topics import Topics

SECONDS_BETWEEN = 0.1, 2.0  # at least, at most


class EstimateUpdates:
    """Tasks and workers whose estimates the other instances do not have yet."""

    def __init__(self, exchange: Exchange, topics: Topics, notify: Callable[[], None]) -> None:
        self.exchange = exchange
        self.crowd = exchange.crowd
        self.topic = topics.estimates.name
        self.tasks = Changes()
        self.workers = Changes()
        self.throttle = Throttle(*SECONDS_BETWEEN, notify)

    def add_to(self, outbox: Outbox, tasks: Ints, workers: Ints) -> None:
        """Note tasks and workers that moved; add the estimates of all such, if they are due."""
        if self.crowd.is_alone:
            self.tasks.take()
            self.workers.take()
            return
        self.tasks.add(tasks)
        self.workers.add(workers)
        if not (self.tasks or self.workers) or not self.throttle.is_due:
            return
        begun = thread_time()
        moved, known = self.tasks.take(), self.workers.take()
        own = self.crowd.has_workers_of[self.crowd.worker.home[known]]
        estimates = self.exchange.estimates_of(moved[self.crowd.is_own_task(moved)], known[own])
        self.write(outbox, estimates)
        # every other instance spends about as much when it receives them
        self.throttle.published((thread_time() - begun) * self.crowd.instances)

    def write_all(self, outbox: Outbox) -> None:
        """Add the estimates of all own tasks and workers."""
        self.write(outbox, self.exchange.all_estimates())

    def write(self, outbox: Outbox, estimates: EstimateRecords) -> None:
        """Add records for the estimates topic."""
        for partition, values in estimates.items():
            outbox.add(self.topic, partition, *(Row(None, value) for value in values))
