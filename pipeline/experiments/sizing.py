"""How many instances a rate of labels needs: a simulation that takes what was measured.

A label costs CPU on the instance that has its worker. If its task is elsewhere, its vote costs
more there. Each instance tells the others of tasks that moved, and all of them hear of all: that
grows with the rate of the whole project, not with an instance's share, and is what ends scaling
out.
"""

from dataclasses import dataclass
from math import ceil

import numpy as np

STEP = 0.01  # seconds
SECONDS = 5.0
BUSY = 0.7  # of a core: what is left is for rebalances, recovery and peaks
MOST_INSTANCES = 512
PARTITIONS_PER_INSTANCE = 4  # so that those of one that is lost can be shared by several


@dataclass(frozen=True)
class Costs:
    """Microseconds of CPU and bytes, as `make scale` and `make bench` measure them.

    `label` is all that a label costs on one instance; `vote` what it costs more where its task is
    on another one; `told` how many tasks are told of for each label, `tell` and `hear` what each of
    these costs its owner and every other instance. `memory` is for each label that is kept, in
    instances; `produced` and `consumed` are bytes on the wire for each label, without estimates,
    and `estimate` those for each task that is told of.
    """

    label: float = 9.0
    vote: float = 2.0
    told: float = 0.8
    tell: float = 0.5
    hear: float = 1.0
    memory: float = 80.0
    produced: float = 420.0
    consumed: float = 180.0
    estimate: float = 50.0


@dataclass(frozen=True)
class Load:
    """What a simulated project came to.

    `busiest` is the share of its core that the busiest instance used, `behind` how many seconds
    of work it had before it at the end.
    """

    instances: int
    busiest: float
    behind: float

    @property
    def keeps_up(self) -> bool:
        """Whether there is room to spare."""
        return self.busiest <= BUSY and self.behind < STEP


def simulate(rate: float, instances: int, costs: Costs, seed: int = 0) -> Load:
    """So many labels a second for a while, on so many instances, each with a core of its own."""
    rng = np.random.default_rng(seed)
    partitions = PARTITIONS_PER_INSTANCE * instances
    share = rng.dirichlet(np.full(partitions, 50.0))  # workers are not equally busy
    share = share.reshape(instances, PARTITIONS_PER_INSTANCE).sum(axis=1)
    waiting = np.zeros(instances)  # microseconds of work
    used = np.zeros(instances)
    elsewhere = 1 - 1 / instances
    for _ in range(round(SECONDS / STEP)):
        taken = rng.multinomial(rng.poisson(rate * STEP), share)
        counted = rng.multinomial(round(taken.sum() * elsewhere), share)
        told = costs.told * taken.sum() * elsewhere
        waiting += costs.label * taken + costs.vote * counted
        waiting += (told / instances) * costs.tell + told * (1 - share) * costs.hear
        done = np.minimum(waiting, 1e6 * STEP)
        waiting -= done
        used += done
    return Load(instances, float(used.max() / (1e6 * SECONDS)), float(waiting.max() / 1e6))


def smallest(rate: float, costs: Costs) -> Load | None:
    """The fewest instances that keep up with a rate, or None if no number does."""
    tried = 1
    while tried <= MOST_INSTANCES:
        load = simulate(rate, tried, costs)
        if load.keeps_up:
            return load
        tried = max(tried + 1, ceil(tried * 1.1))
    return None


@dataclass(frozen=True)
class Size:
    """What a rate needs."""

    rate: float
    load: Load | None
    partitions: int
    memory: float  # bytes of each instance, for the labels kept
    written: float  # bytes a second, to one copy
    read: float


def size(rate: float, labels: float, costs: Costs) -> Size:
    """What a rate needs in a project that keeps so many labels."""
    load = smallest(rate, costs)
    instances = load.instances if load else MOST_INSTANCES
    told = costs.told * rate * costs.estimate * (instances > 1)
    # a label is kept where its worker is and where its task is
    copies = 2 - 1 / instances
    return Size(
        rate,
        load,
        PARTITIONS_PER_INSTANCE * instances,
        costs.memory * labels * copies / instances,
        rate * costs.produced + told,
        rate * costs.consumed + told * instances,
    )
