"""Fast SBIC and settled, one label at a time, on the engine."""

import numpy as np

from pipeline.inference.algorithm import Estimate, Prior
from pipeline.inference.engine.engine import Engine
from pipeline.inference.engine.taking import observe
from pipeline.inference.labels import Floats
from pipeline.inference.online.online import CrowdSize
from pipeline.inference.registry import AlgorithmName
from pipeline.inference.settled import AT_REST


class EngineOnline:
    """An engine for a crowd of known size; with `settles`, an estimate is made at rest.

    >>> crowd = EngineOnline("fast-sbic", CrowdSize(2, 2, 2), Prior(2, 1))
    >>> round(crowd.observe(0, 0, 1), 3), round(crowd.observe(0, 1, 1), 3)
    (0.693, 1.386)
    """

    def __init__(
        self, algorithm: AlgorithmName, size: CrowdSize, prior: Prior, *, settles: bool = False
    ) -> None:
        self._engine = Engine(algorithm, prior=prior)
        self._engine.make_room(size.tasks, size.workers, size.workers * size.labels_per_worker)
        self._state = self._engine.state  # with room for all labels it is never replaced
        self._settles = settles
        self._every = np.arange(size.tasks)

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
        """Estimate every task from the labels so far."""
        if self._settles:
            self._engine.settle(AT_REST)
        return Estimate(self.score)


def fast_sbic(size: CrowdSize, prior: Prior, rng: np.random.Generator) -> EngineOnline:
    """Start Algorithm 1."""
    return EngineOnline("fast-sbic", size, prior)


def settled(size: CrowdSize, prior: Prior, rng: np.random.Generator) -> EngineOnline:
    """Start settled, which comes to rest before each estimate."""
    return EngineOnline("settled", size, prior, settles=True)


def settled_live(size: CrowdSize, prior: Prior, rng: np.random.Generator) -> EngineOnline:
    """Start settled as it is while labels arrive, never at rest."""
    return EngineOnline("settled", size, prior)
