"""Escalation: tasks are offered to one tier of workers at a time, the cheapest first.

A label is expected to take off a task's error what its worker is more often right than the task's
prediction: with the lead L of the most probable class in log-odds, and s, what a label of the tier
is worth on this task, that is σ(s) - σ(L). Where it is negative no single label can help, and the
larger the lead, the less can several. So tasks are sorted by σ(L) - σ(s), smallest first. All
labels of one worker have the same price: per unit of price, the order is the same.
"""

from collections.abc import Hashable, Sequence
from math import exp

import numpy as np
from numpy.typing import NDArray

from sbic.engine.compiled import kernel
from sbic.engine.labels import Floats, Ints
from sbic.policy.order import Weights
from sbic.policy.policy import GRID, ExcludedSet, Policy


class Escalate:
    """The open tasks of each tier, in the order in which its workers get them.

    `steps` is what a label of each tier is worth, in log-odds.

    >>> from sbic.policy.policy import AnswerSet
    >>> policy = Escalate(["t1", "t2", "t3"], np.ones(4))
    >>> tasks, nothing, leads = np.arange(3), np.zeros(3, np.int64), np.array([0.5, 0.4, 0.1])
    >>> offers = np.array([1, 1, 2], np.int8), np.array([9, 9, 9], np.int32)
    >>> policy.follow(tasks, nothing == 0, *offers, nothing, leads, nothing, 0.0)
    >>> policy.choose(1, AnswerSet()), policy.choose(2, AnswerSet()), policy.choose(3, AnswerSet())
    (1, 2, None)
    """

    def __init__(self, names: Sequence[Hashable], steps: Floats, seed: int = 0) -> None:
        weights = Weights(label=0.0, lead=GRID, in_flight=0.0)
        self.steps = steps
        self._of_tier = [Policy(names, weights, seed) for _ in steps]
        self._used: list[int] = []  # tiers that any task was offered to
        self._bits = 0  # the same, a bit for each

    def __len__(self) -> int:
        """How many tasks are offered to any tier."""
        return sum(len(self._of_tier[tier]) for tier in self._used)

    def open_in(self, tier: int) -> int:
        """How many tasks are offered to a tier."""
        return len(self._of_tier[tier])

    def follow(
        self,
        tasks: Ints,
        is_open: NDArray[np.bool_],
        tiers: NDArray[np.int8],
        left: NDArray[np.int32],
        labels: Ints,
        leads: Floats,
        in_flight: Ints,
        dependence: float,
    ) -> None:
        """Offer open tasks to their tiers; one of tier 0, or with all labels in flight, to none.

        `tiers` and `left` are of all tasks, by their numbers.
        """
        keys, offered = np.empty(len(tasks)), np.empty(len(tasks), np.int64)
        columns = tasks, is_open, tiers, left, labels, leads, in_flight
        used = weigh(*columns, self.steps, dependence, keys, offered)
        if used != self._bits:
            self._bits |= used
            self._used = [tier for tier in range(len(self._of_tier)) if self._bits >> tier & 1]
        for tier in self._used:
            self._of_tier[tier].follow(tasks, offered == tier, labels, keys, in_flight)

    def choose(self, tier: int, answers: ExcludedSet, worker: Hashable | None = None) -> int | None:
        """Return the first task of a tier that is new to the worker; None if there is none."""
        return self._of_tier[tier].choose(answers, worker)

    def allow(self, task: int, worker: Hashable) -> None:
        """Allow `worker` to get `task` again, which was removed from their answers."""
        for tier in self._used:
            self._of_tier[tier].allow(task, worker)

    def forget(self) -> None:
        """Check all tasks again at each worker's next request."""
        for policy in self._of_tier:
            policy.forget()

    @property
    def remembers_workers(self) -> bool:
        """Whether `allow` has to be called."""
        return any(self._of_tier[tier].remembers_workers for tier in self._used)


@kernel
def weigh(
    tasks: Ints,
    is_open: NDArray[np.bool_],
    tiers: NDArray[np.int8],
    left: NDArray[np.int32],
    labels: Ints,
    leads: Floats,
    in_flight: Ints,
    steps: Floats,
    dependence: float,
    keys: Floats,
    offered: Ints,
) -> int:
    """Write the tier that gets each task, and its key; return which tiers do, a bit for each.

    A label in flight counts as if it had increased the lead. With the dependence ρ, one more label
    is worth less on a task that has n: s = s0 / (1 + n ρ).
    """
    used = 0
    for t in range(len(tasks)):
        i = tasks[t]
        tier = tiers[i] if is_open[t] and in_flight[t] < left[i] else 0
        offered[t] = tier
        keys[t] = 0.0
        if tier > 0:
            step = steps[tier] / (1 + (labels[t] + in_flight[t]) * dependence)
            lead = leads[t] + step * in_flight[t]
            keys[t] = 1 + 1 / (1 + exp(-lead)) - 1 / (1 + exp(-step))
            used |= 1 << tier
    return used
