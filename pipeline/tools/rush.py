"""Labels that a crowd gives all at once, unasked: on random tasks that are new to each worker."""

from collections.abc import Mapping, Set

import numpy as np

from pipeline.tools.sending import Label
from pipeline.tools.simulated_workers import SimulatedWorker


def rush(
    count: int,
    truth: Mapping[str, int],
    workers: Mapping[str, SimulatedWorker],
    answered: Set[tuple[str, str]],
    seed: int,
) -> list[Label]:
    """So many labels, none by a worker on a task that they have `answered`, none twice.

    >>> from random import Random
    >>> from pipeline.tools.simulated_workers import Habits
    >>> ann = SimulatedWorker("ann", Habits(), 1, Random(0))
    >>> ((task, worker, _),) = rush(1, {"t1": 1, "t2": 1}, {"ann": ann}, {("t1", "ann")}, seed=0)
    >>> task, worker
    ('t2', 'ann')
    """
    rng = np.random.default_rng(seed)
    tasks, names = list(truth), list(workers)
    labels: list[Label] = []
    for pair in rng.permutation(len(tasks) * len(names)).tolist():
        task, name = tasks[pair // len(names)], names[pair % len(names)]
        if len(labels) == count:
            break
        if (task, name) not in answered:
            is_right = rng.random() < workers[name].accuracy
            labels.append((task, name, truth[task] if is_right else -truth[task]))
    return labels
