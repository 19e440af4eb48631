"""How many instances a rate of labels needs: a simulation with measured costs.

A label costs CPU on the instance that owns its worker. If another instance owns its task, the vote
costs CPU there. Instances publish estimates of changed tasks, and each one reads them all: this
cost grows with the rate of the whole project, not with an instance's share, and limits scaling out.
"""

from dataclasses import dataclass
from math import ceil

import numpy as np

STEP = 0.01  # seconds
SECONDS = 5.0
BUSY = 0.7  # of a core: the rest is for rebalances, recovery and peaks
MOST_INSTANCES = 512
PARTITIONS_PER_INSTANCE = 4  # so that several can share those of a lost instance


@dataclass(frozen=True)
class Costs:
    """Microseconds of CPU and bytes, as `make scale` and `make bench` measure them.

    `label` is the cost of a label on one instance; `vote` the extra cost if its task is on another
    one; `told` the number of estimates published for each label, `tell` and `hear` the cost of each
    for its publisher and for every other instance. `memory` is for each label kept. `produced` and
    `consumed` are bytes on the wire for each label, `sent` those of its vote if its task is on
    another instance, and `estimate` those of each estimate.
    """

    label: float = 9.0
    vote: float = 2.0
    told: float = 0.8
    tell: float = 0.5
    hear: float = 1.0
    memory: float = 80.0
    produced: float = 375.0
    consumed: float = 135.0
    sent: float = 45.0
    estimate: float = 50.0


@dataclass(frozen=True)
class Load:
    """The load of a simulated project.

    `busiest` is the share of its core that the busiest instance used, `behind` its lag at the end,
    in seconds of work.
    """

    instances: int
    busiest: float
    behind: float

    @property
    def keeps_up(self) -> bool:
        """Whether the instances keep up, with capacity to spare."""
        return self.busiest <= BUSY and self.behind < STEP


def simulate(rate: float, instances: int, costs: Costs, seed: int = 0) -> Load:
    """Simulate a rate of labels per second on instances with a dedicated core each."""
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
    """Return the fewest instances that keep up with a rate, or None if no number does."""
    tried = 1
    while tried <= MOST_INSTANCES:
        load = simulate(rate, tried, costs)
        if load.keeps_up:
            return load
        tried = max(tried + 1, ceil(tried * 1.1))
    return None


@dataclass(frozen=True)
class Size:
    """The resources that a rate needs."""

    rate: float
    load: Load | None
    partitions: int
    memory: float  # bytes per instance, for the labels kept
    written: float  # bytes per second, of one replica
    read: float


def size(rate: float, labels: float, costs: Costs) -> Size:
    """Return the resources that a rate needs in a project that keeps this number of labels."""
    load = smallest(rate, costs)
    instances = load.instances if load else MOST_INSTANCES
    told = costs.told * rate * costs.estimate * (instances > 1)
    elsewhere = 1 - 1 / instances
    sent = costs.sent * rate * elsewhere
    copies = 1 + elsewhere  # kept by the owner of the worker and by the owner of the task
    return Size(
        rate,
        load,
        PARTITIONS_PER_INSTANCE * instances,
        costs.memory * labels * copies / instances,
        rate * costs.produced + sent + told,
        rate * costs.consumed + sent + told * instances,
    )
