"""Compiles all there is to compile ahead of its first use: run once where the package is installed.

python -m pipeline.inference.warm_up
"""

import numpy as np

from pipeline.inference.algorithm import Prior
from pipeline.inference.engine.engine import Engine
from pipeline.inference.labels import Labels
from pipeline.inference.online_forms import ONLINE_FORMS, online_form
from pipeline.inference.registry import ALGORITHMS


def warm_up() -> None:
    """Run every compiled function once, on very little."""
    labels = Labels.of([("t1", "ann", 1), ("t2", "ann", -1), ("t1", "bob", 1)])
    rng = np.random.default_rng(0)
    for entry in ALGORITHMS.values():
        entry.load()(labels, Prior(), rng)
    for name in ONLINE_FORMS:
        online_form(name, 2, 2, 2, Prior(4, 3), rng).observe(0, 0, 1)
    engine = Engine("settled")
    engine.take_one(0, 0, 1)
    engine.set_gold(0, 1)
    engine.set_prior(1, (0.4, 0.6))
    engine.refresh(1)
    engine.refresh_due()
    engine.moved()
    engine.moved_workers()
    engine.put([0], [1], [1], [0.0])
    engine.has_answered(1, 0)
    engine.overview(np.array([0]))
    for give_up, take_on in (
        (engine.leave_tasks, engine.enter_tasks),
        (engine.leave_workers, engine.enter_workers),
    ):
        give_up([0])
        take_on([0])
    engine.hear_of_tasks([0], [[0.0, 0.0]])
    engine.hear_of_workers([0], [[0.0, 0.0, 0.0, 0.0]])
    engine.hear_of_crowd([engine.sums])


if __name__ == "__main__":
    warm_up()
