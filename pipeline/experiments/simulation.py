"""Simulates a crowd: a worker gets a task from the policy, and their label is counted."""

from collections.abc import Callable
from typing import Protocol

import numpy as np

from pipeline.experiments.crowd import PRIOR, Crowd
from pipeline.inference.labels import Labels
from pipeline.inference.online.online import CrowdSize, Online
from pipeline.inference.registry import ALGORITHMS
from pipeline.policies.answers import AnswerSet
from pipeline.policies.scan import Scan
from pipeline.policies.uncertainty import Uncertainty
from pipeline.policies.uniform import Uniform

Observe = Callable[[int, int, int], float]


class Sampling(Protocol):
    """The part of a policy that a simulation uses."""

    def choose(self, answers: AnswerSet) -> int | None:
        """The task for a worker who has answered these."""
        ...

    def update(self, task: int, labels: int, lead: float) -> None:
        """Update the number of labels and the |score| of a task."""
        ...


class Simulation:
    """One run: each label is counted by `observe`, which returns the new score of its task."""

    def __init__(self, crowd: Crowd, policy: Sampling, observe: Observe) -> None:
        self._crowd = crowd
        self._policy = policy
        self._observe = observe
        self._answered = [AnswerSet() for _ in range(crowd.workers)]
        self._labels_of = [0] * crowd.tasks
        self._chosen: list[int] = []
        self._truth: list[int] = crowd.truth.tolist()
        for task in range(crowd.tasks):
            policy.update(task, 0, abs(PRIOR.log_odds))

    def advance(self, until: int) -> None:
        """Continue until `until` labels have been given in total."""
        choose, observe, update = self._policy.choose, self._observe, self._policy.update
        labels_of, chosen, truth = self._labels_of, self._chosen, self._truth
        coming = slice(len(chosen), until)
        workers, right = self._crowd.worker[coming].tolist(), self._crowd.right[coming].tolist()
        for worker, is_right in zip(workers, right, strict=True):
            answered = self._answered[worker]
            task = choose(answered)
            assert task is not None, "a worker gives no more labels than there are tasks"
            answered.add(task)
            chosen.append(task)
            labels_of[task] += 1
            update(task, labels_of[task], abs(observe(task, worker, is_right * truth[task])))

    def labels(self) -> Labels:
        """All labels so far, in order."""
        given = len(self._chosen)
        task = np.array(self._chosen, dtype=np.int64)
        label = self._crowd.right[:given] * self._crowd.truth[task]
        return Labels(
            task,
            self._crowd.worker[:given],
            (label + 1) // 2,
            tuple(map(str, range(self._crowd.tasks))),
            tuple(map(str, range(self._crowd.workers))),
        )


def uniform_run(crowd: Crowd, rng: np.random.Generator) -> Simulation:
    """A simulation that chooses tasks uniformly, and only collects labels."""
    policy = Uniform(range(crowd.tasks), int(rng.integers(2**32)))
    return Simulation(crowd, policy, lambda task, worker, label: 0.0)


def uncertainty_run(name: str, crowd: Crowd, rng: np.random.Generator) -> tuple[Simulation, Online]:
    """The tasks are chosen by what the algorithm of this name makes of the labels so far."""
    size = CrowdSize(crowd.tasks, crowd.workers, crowd.labels_per_worker)
    algorithm = ALGORITHMS[name].load_online()(size, PRIOR, rng)
    seed = int(rng.integers(2**32))
    policy: Sampling
    if ALGORITHMS[name].moves_one_task:
        policy = Uncertainty(range(crowd.tasks), seed)
    else:
        policy = Scan(algorithm.score, seed)
    return Simulation(crowd, policy, algorithm.observe), algorithm
