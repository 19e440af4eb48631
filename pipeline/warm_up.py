"""Compiles all kernels before their first use: run once where the package is installed.

python -m pipeline.warm_up

Later processes load what was compiled. An instance does that before it is ready, so that its first
label does not wait.
"""

import numpy as np

from pipeline.classes import SIGNS
from pipeline.inference.algorithm import Prior
from pipeline.inference.engine.engine import Engine
from pipeline.inference.labels import Labels
from pipeline.inference.online.online import CrowdSize
from pipeline.inference.registry import ALGORITHMS
from pipeline.policies.answers import AnswerSet
from pipeline.policies.progress import WORTH
from pipeline.policies.scan import Scan
from pipeline.policies.uniform import Uniform
from pipeline.records.many_votes import VotesReader
from pipeline.stages.crowd import Crowd
from pipeline.stages.judge import Ends, Judge
from pipeline.stages.offsets import CountedOffsets
from pipeline.stages.task_stage import TaskStage


def warm_up() -> None:
    """Run every compiled function once, on minimal input."""
    warm_up_algorithms()
    warm_up_instance()


def warm_up_instance() -> None:
    """Compile what an instance runs."""
    warm_up_engine()
    warm_up_policies()
    warm_up_stages()


def warm_up_algorithms() -> None:
    """Compile the algorithms."""
    labels = Labels.of([("t1", "ann", 1), ("t2", "ann", -1), ("t1", "bob", 1)])
    rng = np.random.default_rng(0)
    for entry in ALGORITHMS.values():
        entry.load()(labels, Prior(), rng)
        if entry.online:
            entry.load_online()(CrowdSize(2, 2, 2), Prior(4, 3), rng).observe(0, 0, 1)


def warm_up_engine() -> None:
    """Compile the engine."""
    engine = Engine("settled")
    engine.take([0], [0], [1])
    engine.set_gold(0, 1)
    engine.set_prior(1, (0.4, 0.6))
    engine.refresh(1)
    engine.refresh_due()
    engine.moved()
    engine.moved_workers()
    engine.put([0], [1], [1], [0.0])
    engine.has_answered(1, 0)
    engine.first_unanswered(1, np.array([0]))
    for release, acquire in (
        (engine.release_tasks, engine.acquire_tasks),
        (engine.release_workers, engine.acquire_workers),
    ):
        release([0])
        acquire([0])
    engine.receive_tasks([0], [[0.0, 0.0]])
    engine.receive_workers([0], [[0.0, 0.0, 0.0, 0.0]])
    engine.receive_sums([engine.sums])
    engine.workers([0])


def warm_up_policies() -> None:
    """Compile the choice of tasks."""
    tasks = 2 * WORTH
    policy = Uniform(range(tasks))
    numbers, nothing = np.arange(tasks), np.zeros(tasks, np.int64)
    policy.follow(numbers, nothing == 0, nothing, np.zeros(tasks), nothing)
    policy.update(0, 1, 0.0)
    for _ in range(3):  # the first scans all tasks, the others continue there
        policy.choose(AnswerSet(numbers.tolist()), "ann")
        policy.update(1, 1, 0.0)
    policy.remove(0)
    Scan(np.zeros(2)).choose([0])


def warm_up_stages() -> None:
    """Compile what reads and writes records."""
    crowd = Crowd(Engine("fast-sbic"), SIGNS, partitions=1)
    judge = Judge(crowd, Ends(1))
    CountedOffsets().add(np.array([0]))
    judge.problems_of(VotesReader(len(SIGNS)).read(), *np.zeros((2, 0), np.int64))
    tasks = crowd.number_tasks([f"t{number}" for number in range(20)])  # the table of names grows
    crowd.tasks.names_of(tasks).take(tasks)
    crowd.changed.add(tasks)
    crowd.overview(tasks)
    TaskStage(crowd, judge).posteriors(tasks)


if __name__ == "__main__":
    warm_up()
