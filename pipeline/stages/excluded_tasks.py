"""The tasks that a worker must not get."""

from collections.abc import Iterable

from pipeline.inference.labels import Ints
from pipeline.stages.crowd import Crowd

NOTHING: frozenset[int] = frozenset()


class ExcludedTasks:
    """The tasks that a worker has answered or skipped, or has or had a lease for."""

    __slots__ = ("crowd", "leased", "skipped", "worker")

    def __init__(self, crowd: Crowd, worker: int | None, *leases: Iterable[str]) -> None:
        self.crowd = crowd
        self.worker = worker
        self.skipped = crowd.skipped.get(worker, NOTHING) if worker is not None else NOTHING
        self.leased = [crowd.tasks.known(task) for tasks in leases for task in tasks]

    def first_new(self, tasks: Ints) -> int:
        """The index of the first of these tasks that is new to the worker, or their number."""
        place = 0
        while True:
            if self.worker is not None:
                place = self.crowd.engine.first_unanswered(self.worker, tasks, place)
            if place == len(tasks):
                return place
            task = int(tasks[place])
            if task not in self.skipped and task not in self.leased:
                return place
            place += 1

    def __len__(self) -> int:
        answered = 0 if self.worker is None else self.crowd.engine.given(self.worker)
        return answered + len(self.skipped) + len(self.leased)
