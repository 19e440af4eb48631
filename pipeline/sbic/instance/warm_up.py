"""Runs once what an instance runs, on minimal input: no label waits for a compiler."""

import numpy as np

from sbic.classes import SIGNS
from sbic.engine.copies import Copies
from sbic.engine.engine import Engine
from sbic.instance.crowd import Crowd
from sbic.instance.taken import CountedOffsets
from sbic.instance.tasks import TaskStage
from sbic.policy.escalate import Escalate
from sbic.policy.policy import WORTH, AnswerSet, Uniform


def warm_up_instance() -> None:
    """Compile what an instance runs."""
    warm_up_engine()
    warm_up_policies()
    warm_up_escalation()
    warm_up_stages()


def warm_up_engine() -> None:
    """Compile the engine."""
    engine = Engine("settled")
    engine.take([0], [0], [1])
    engine.set_gold(0, 1)
    engine.set_prior(1, (0.4, 0.6))
    engine.refresh(1)
    while engine.refresh_due():  # a calibration by gold is followed, too
        pass
    engine.prevalence()
    engine.moved()
    engine.tell([0])
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
    for tasks in ([0], [1]):
        engine.receive_shares(tasks, [0], [1.0])
    engine.set_copies(Copies(np.array([0]), np.array([1]), np.array([1.0])))
    engine.set_groups([0, 1], [0, 0])
    engine.shares_of([0])
    engine.find_copies()
    engine.workers([0])
    engine.beliefs([2])  # without labels: the prior of the classes


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


def warm_up_escalation() -> None:
    """Compile what chooses tasks by tiers."""
    nothing, offers = np.zeros(1, np.int64), (np.ones(1, np.int8), np.ones(1, np.int32))
    policy = Escalate(["t"], np.ones(2))
    policy.follow(nothing, nothing == 0, *offers, nothing, np.zeros(1), nothing, 0.0)


def warm_up_stages() -> None:
    """Compile what reads and writes records."""
    crowd = Crowd(Engine("fast-sbic"), SIGNS, partitions=1)
    CountedOffsets().add(np.array([0]))
    tasks = crowd.number_tasks([f"t{number}" for number in range(20)])  # the table of names grows
    crowd.tasks.names_of(tasks).take(tasks)
    crowd.changed.add(tasks)
    crowd.overview(tasks)
    TaskStage(crowd).posteriors(tasks)
