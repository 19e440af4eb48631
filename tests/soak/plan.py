"""Which faults happen when: all of it follows from the seed."""

import random
from collections.abc import Iterator
from enum import StrEnum
from typing import NamedTuple

MEAN_GAP_SECONDS = 5.0
MOST_PAUSE_SECONDS = 20.0
MOST_AWAY_SECONDS = 8.0


class FaultKind(StrEnum):
    """What can happen."""

    KILL = "SIGKILL"
    PAUSE = "SIGSTOP"
    TERMINATE = "SIGTERM"
    JOIN = "join"
    KILL_BROKER = "SIGKILL of the broker"
    STOP_BROKER = "restart of the broker"


# As many instances join as leave, or more: a broker that goes away ends those that are starting.
BAG = [
    *[FaultKind.KILL] * 2,
    *[FaultKind.TERMINATE] * 2,
    *[FaultKind.PAUSE] * 3,
    *[FaultKind.JOIN] * 5,
    *[FaultKind.KILL_BROKER, FaultKind.STOP_BROKER],
]


class Fault(NamedTuple):
    """One fault: when, what, and in which project.

    `pick`, from 0 to 1, says which of the instances that are running by then it is; `seconds` for
    how long it is paused, or the broker away.
    """

    at: float
    kind: FaultKind
    project: int
    pick: float
    seconds: float


def plan(seed: int, seconds: float, projects: int) -> list[Fault]:
    """The faults of a run, in the order of their times.

    >>> faults = plan(seed=1, seconds=90, projects=2)
    >>> faults == plan(seed=1, seconds=90, projects=2) != plan(seed=2, seconds=90, projects=2)
    True
    >>> {fault.kind for fault in faults} == set(FaultKind)
    True
    """
    rng = random.Random(seed)
    return list(_faults(rng, seconds, projects))


def _faults(rng: random.Random, seconds: float, projects: int) -> Iterator[Fault]:
    at, bag = 0.0, list[FaultKind]()
    while True:
        at += rng.uniform(0.2, 1.8) * MEAN_GAP_SECONDS
        if at > seconds:
            return
        if not bag:  # each kind comes before any comes often
            bag = rng.sample(BAG, len(BAG))
        kind = bag.pop()
        most = MOST_PAUSE_SECONDS if kind is FaultKind.PAUSE else MOST_AWAY_SECONDS
        yield Fault(at, kind, rng.randrange(projects), rng.random(), rng.uniform(0.5, most))
