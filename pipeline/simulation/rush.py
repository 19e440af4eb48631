"""Labels given all at once, without requests: on random tasks that are new to each worker."""

from collections.abc import Mapping, Set
from random import Random

import numpy as np

from pipeline.kafka.sending import Label
from pipeline.simulation.workers import SimulatedWorker


def rush(
    count: int,
    truth: Mapping[str, int | str],
    workers: Mapping[str, SimulatedWorker],
    answered: Set[tuple[str, str]],
    seed: int,
) -> list[Label]:
    """Draw `count` labels, none twice, and none by a worker on a task that they have `answered`.

    >>> from pipeline.simulation.workers import Habits
    >>> ann = SimulatedWorker("ann", Habits(), 1, Random(0))
    >>> ((task, worker, _),) = rush(1, {"t1": 1, "t2": 1}, {"ann": ann}, {("t1", "ann")}, seed=0)
    >>> task, worker
    ('t2', 'ann')
    """
    pairs, rng = np.random.default_rng(seed), Random(seed)
    tasks, names = list(truth), list(workers)
    labels: list[Label] = []
    for pair in pairs.permutation(len(tasks) * len(names)).tolist():
        task, name = tasks[pair // len(names)], names[pair % len(names)]
        if len(labels) == count:
            break
        if (task, name) not in answered:
            labels.append(Label(task, name, workers[name].answer(truth[task], rng)))
    return labels
