"""The engine as an online algorithm of the simulations: tasks and workers are numbers."""

from typing import Literal

import numpy as np

from pipeline.inference.algorithm import Estimate, Prior
from pipeline.inference.engine.engine import Engine
from pipeline.inference.engine.steps import observe
from pipeline.inference.labels import Floats
from pipeline.inference.settled import AT_REST


class EngineOnline:
    """Fast SBIC, or settled: at rest whenever an estimate is asked for, or never (`live`).

    >>> crowd = EngineOnline("fast-sbic", 2, 2, 2, prior=Prior(2, 1))
    >>> round(crowd.observe(0, 0, 1), 3), round(crowd.observe(0, 1, 1), 3)
    (0.693, 1.386)
    """

    def __init__(
        self,
        name: Literal["fast-sbic", "settled", "settled-live"],
        tasks: int,
        workers: int,
        labels_per_worker: int,
        prior: Prior,
    ) -> None:
        self._engine = Engine("fast-sbic" if name == "fast-sbic" else "settled", prior=prior)
        self._engine.make_room(tasks, workers, workers * labels_per_worker)
        self._state = self._engine.state  # with room for all labels it stays the same
        self._settles = name == "settled"
        self._every = np.arange(tasks)

    def observe(self, task: int, worker: int, label: int) -> float:
        """Count a label and return its task's log-odds."""
        return observe(task, worker, label > 0, *self._state)

    @property
    def score(self) -> Floats:
        """The log-odds of every task."""
        scores = self._engine.scores(self._every)
        log_odds: Floats = scores[:, 1] - scores[:, 0]
        return log_odds

    def estimate(self) -> Estimate:
        """What the labels so far say of each task."""
        if self._settles:
            self._engine.settle(AT_REST)
        return Estimate(self.score)
