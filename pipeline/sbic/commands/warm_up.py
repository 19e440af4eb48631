"""Compiles all kernels before their first use: run once where the package is installed.

python -m sbic.commands.warm_up [instances]

Later processes load what was compiled.
"""

import sys

import numpy as np

from sbic.engine.labels import Labels, Prior
from sbic.infer.registry import ALGORITHMS
from sbic.instance.warm_up import warm_up_instance
from sbic.research.online import CrowdSize
from sbic.research.simulated import Scan

ONLY_INSTANCES = "instances"


def warm_up() -> None:
    """Run every compiled function once, on minimal input."""
    warm_up_instance()
    warm_up_algorithms()
    Scan(np.zeros(2)).choose([0])


def warm_up_algorithms() -> None:
    """Compile the algorithms on whole files, those of the paper too."""
    labels = Labels.of([("t1", "ann", 1), ("t2", "ann", -1), ("t1", "bob", 1)])
    rng = np.random.default_rng(0)
    for entry in ALGORITHMS.values():
        entry.load()(labels, Prior(), rng)
        if entry.online:
            entry.load_online()(CrowdSize(2, 2, 2), Prior(4, 3), rng).observe(0, 0, 1)


if __name__ == "__main__":
    warm_up_instance() if ONLY_INSTANCES in sys.argv[1:] else warm_up()
