"""Statistics over the tasks and workers of an instance, for metrics."""

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from sbic.engine.labels import Ints
from sbic.instance.crowd import REASONS, Crowd
from sbic.wire.posteriors import CLOSE_REASONS

CONFIDENCES = (0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99, 0.999, 1.0)
ROWS_AT_ONCE = 4_000  # tasks or workers: about a millisecond


@dataclass
class Survey:
    """The own tasks by state and by confidence, and the number of blocked own workers.

    `states` is indexed like `REASONS`. `confidences` is a histogram: each count is of the tasks up
    to a bound and above the one before; the last is of those above all bounds.
    """

    states: Ints = field(default_factory=lambda: np.zeros(len(REASONS), np.int64))
    confidences: Ints = field(default_factory=lambda: np.zeros(len(CONFIDENCES) + 1, np.int64))
    confidence: float = 0.0
    blocked_workers: int = 0

    @property
    def expected_wrong(self) -> float:
        """The sum of 1 - max p over the tasks."""
        return float(self.states.sum()) - self.confidence

    def tasks_by_state(self) -> dict[str, int]:
        """How many tasks are open, or closed for each reason."""
        names = ["open", *CLOSE_REASONS]
        return dict(zip(names, self.states.tolist(), strict=True))


class Surveyor:
    """Counts some rows at a time: a million tasks at once would delay labels.

    >>> from sbic.classes import SIGNS
    >>> from sbic.engine.engine import Engine
    >>> crowd = Crowd(Engine("fast-sbic"), SIGNS, partitions=1)
    >>> crowd.open_tasks(0)
    >>> _ = crowd.number_tasks(["t1", "t2"])
    >>> survey = Survey()
    >>> for _ in Surveyor(crowd).steps(survey):
    ...     pass
    >>> survey.tasks_by_state()["open"], survey.expected_wrong
    (2, 1.0)
    """

    def __init__(
        self, crowd: Crowd, block_below: float | None = None, block_after: int = 0
    ) -> None:
        self.crowd = crowd
        self.block_below = block_below
        self.block_after = block_after

    def steps(self, survey: Survey) -> Iterator[None]:
        """Complete a survey; yield after each step."""
        for tasks in _pieces(len(self.crowd.tasks)):
            self._count_tasks(survey, tasks)
            yield
        if self.block_below is not None:
            for workers in _pieces(len(self.crowd.workers)):
                self._count_workers(survey, workers, self.block_below)
                yield

    def _count_tasks(self, survey: Survey, tasks: Ints) -> None:
        crowd = self.crowd
        own = tasks[crowd.is_own_task(tasks)]
        survey.states += np.bincount(crowd.task.reason[own], minlength=len(REASONS))
        sure = crowd.engine.beliefs(own).max(axis=1, initial=0.0)
        found = np.searchsorted(CONFIDENCES, sure, side="left")
        survey.confidences += np.bincount(found, minlength=len(CONFIDENCES) + 1)
        survey.confidence += float(sure.sum())

    def _count_workers(self, survey: Survey, workers: Ints, below: float) -> None:
        crowd = self.crowd
        own = workers[crowd.has_workers_of[crowd.worker.home[workers]]]
        counts = crowd.engine.workers(own)
        blocked = (counts.given >= self.block_after) & (counts.accuracy < below)
        survey.blocked_workers += int(blocked.sum())


def _pieces(rows: int) -> Iterator[Ints]:
    for first in range(0, rows, ROWS_AT_ONCE):
        yield np.arange(first, min(first + ROWS_AT_ONCE, rows))
