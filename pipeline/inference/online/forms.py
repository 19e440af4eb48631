"""The online form of every algorithm, by the names of the registry."""

import numpy as np

from pipeline.inference.algorithm import Estimate, Prior
from pipeline.inference.labels import Floats
from pipeline.inference.online.engine import EngineOnline
from pipeline.inference.online.kos import KOSOnline
from pipeline.inference.online.majority import MajorityOnline
from pipeline.inference.online.mean_field import MeanFieldOnline
from pipeline.inference.online.online import Online
from pipeline.inference.online.particle_filter import ParticleFilter
from pipeline.inference.online.sorted_sbic import SortedSBIC

ONLINE_FORMS = (
    *("majority", "em", "amf", "kos", "mc", "fast-sbic", "sorted-sbic"),
    *("settled", "settled-live"),
)
MOVE_ONE_TASK = ("majority", "fast-sbic", "settled", "settled-live")  # the others move all


def online_form(
    name: str,
    tasks: int,
    workers: int,
    labels_per_worker: int,
    prior: Prior,
    rng: np.random.Generator,
) -> Online:
    """A fresh one, for a crowd of this size.

    >>> rng = np.random.default_rng(1)
    >>> for name in ONLINE_FORMS:
    ...     crowd = online_form(name, 2, 2, 2, Prior(4, 3), rng)
    ...     assert crowd.observe(1, 0, -1) == crowd.score[1]
    """
    size = tasks, workers, labels_per_worker
    match name:
        case "majority":
            return MajorityOnline(tasks)
        case "em":
            return MeanFieldOnline(*size, prior, right=prior.alpha - 1, wrong=prior.beta - 1)
        case "amf":
            return MeanFieldOnline(*size, prior, right=prior.alpha, wrong=prior.beta)
        case "kos":
            return KOSOnline(*size)
        case "mc":
            return ParticleFilter(*size, prior, rng)
        case "fast-sbic" | "settled" | "settled-live":
            return EngineOnline(name, *size, prior)
        case "sorted-sbic":
            return SortedSBICOnline(SortedSBIC(*size, prior))
    raise ValueError(f"no online form of {name}; there is one of {', '.join(ONLINE_FORMS)}")


class SortedSBICOnline:
    """Sorted SBIC with the verbs of the others."""

    def __init__(self, crowd: SortedSBIC) -> None:
        self._crowd = crowd
        self.score: Floats = crowd.log_odds

    def observe(self, task: int, worker: int, label: int) -> float:
        """Count a label and return its task's log-odds."""
        self._crowd.observe(task, worker, label)
        return float(self.score[task])

    def estimate(self) -> Estimate:
        """What the labels so far say of each task."""
        return Estimate(self.score.copy())
