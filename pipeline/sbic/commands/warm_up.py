"""Compiles all kernels before their first use: run once where the package is installed.

python -m sbic.commands.warm_up

Later processes load what was compiled.
"""

import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import click

from sbic.instance.warm_up import warm_up_instance
from sbic.local import guard

ONLY_INSTANCES = "instances"
NOTICE_AFTER_SECONDS = 1.0


def warm_up() -> None:
    """Run every compiled function once, on minimal input."""
    warm_up_instance()
    warm_up_algorithms()


def warm_up_algorithms() -> None:
    """Compile the algorithms on whole files, those of the paper too."""
    import numpy as np

    from sbic.engine.labels import Labels, Prior
    from sbic.infer.registry import ALGORITHMS
    from sbic.research.online import CrowdSize
    from sbic.research.simulated import Scan

    labels = Labels.of([("t1", "ann", 1), ("t2", "ann", -1), ("t1", "bob", 1)])
    rng = np.random.default_rng(0)
    for entry in ALGORITHMS.values():
        entry.load()(labels, Prior(), rng)
        if entry.online:
            entry.load_online()(CrowdSize(2, 2, 2), Prior(4, 3), rng).observe(0, 0, 1)
    Scan(np.zeros(2)).choose([0])


@contextmanager
def compiling() -> Iterator[Callable[[], None]]:
    """Compile what instances run beside the block, in which the function waits for it.

    Instances that start at the same time would otherwise all compile the same.
    """
    command = (sys.executable, "-P", "-m", "sbic.commands.warm_up", ONLY_INSTANCES)
    running = subprocess.Popen(
        (sys.executable, "-I", "-S", guard.__file__, "", *command),
        stdin=subprocess.PIPE,  # when it closes, even because this process was killed, it ends
        stderr=subprocess.DEVNULL,  # an instance says the same
        start_new_session=True,  # Ctrl-C goes to this process only
    )

    def wait() -> None:
        try:
            running.wait(NOTICE_AFTER_SECONDS)
        except subprocess.TimeoutExpired:
            click.echo("Compiling, once: this takes up to a minute ...", err=True)
            running.wait()

    try:
        yield wait
    finally:
        assert running.stdin
        running.stdin.close()
        running.wait()


if __name__ == "__main__":
    warm_up_instance() if ONLY_INSTANCES in sys.argv[1:] else warm_up()
