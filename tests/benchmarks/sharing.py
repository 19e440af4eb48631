"""The cost of publishing and reading estimates, and of counting votes of other instances."""

from time import process_time

import numpy as np
from rich.console import Console

from sbic.classes import SIGNS
from sbic.engine import AlgorithmName
from sbic.engine.engine import Engine
from sbic.infer.registry import STREAMED
from sbic.instance.crowd import Crowd
from sbic.instance.estimates import Exchange
from sbic.instance.taken import Taken
from sbic.instance.tasks import TaskStage
from sbic.instance.workers import WorkerStage
from sbic.wire.labels import encode_label
from sbic.wire.seal import KEY_BYTES, Seal
from tests.benchmarks.assignments import BenchmarkRecord

TASKS, WORKERS, LABELS = 20_000, 4_000, 200_000
AT_ONCE = 1_000
PARTITIONS = 8


class HalfOfAll:
    """Half of the partitions, those with even or those with odd numbers."""

    def __init__(self, algorithm: AlgorithmName, number: int) -> None:
        self.crowd = Crowd(Engine(algorithm), SIGNS, PARTITIONS)
        self.workers = WorkerStage(self.crowd, Seal(bytes(KEY_BYTES)))
        self.tasks = TaskStage(self.crowd)
        self.exchange = Exchange(self.tasks)
        own = range(number, PARTITIONS, 2)
        for partition in own:
            self.workers.open(partition)
            self.tasks.open(partition)
            self.workers.ready(partition)
        self.tasks.ready(own, 1)


def costs(algorithm: AlgorithmName) -> tuple[float, float, float, float]:
    """Microseconds for a label taken, a vote counted, an estimate published and one read."""
    first, second = HalfOfAll(algorithm, 0), HalfOfAll(algorithm, 1)
    rng = np.random.default_rng(1)
    names = [f"w{j}" for j in range(WORKERS) if first.crowd.home_of(f"w{j}") == 0]
    taking = counting = telling = hearing = 0.0
    votes = rows = 0
    for start in range(0, LABELS, AT_ONCE):
        records = [
            BenchmarkRecord(start + k, 0, encode_label(f"t{i}", names[j], 1 if x else -1))
            for k, (i, j, x) in enumerate(
                zip(
                    rng.integers(0, TASKS, AT_ONCE).tolist(),
                    rng.integers(0, len(names), AT_ONCE).tolist(),
                    rng.integers(0, 2, AT_ONCE).tolist(),
                    strict=True,
                )
            )
        ]
        taken: Taken[BenchmarkRecord] = Taken()
        begun = process_time()
        first.workers.take({0: records}, taken)
        taking += process_time() - begun
        for _, home, value, _ in taken.votes:
            if second.crowd.has_tasks_of[home]:
                begun = process_time()
                votes += second.tasks.count(home, [value]).votes
                counting += process_time() - begun
        moved = second.crowd.moved()
        begun = process_time()
        told = second.exchange.estimates_of(moved, second.crowd.engine.moved_workers())
        telling += process_time() - begun
        begun = process_time()
        for partition, values in told.items():
            for value in values:
                first.exchange.receive(partition, value)
        hearing += process_time() - begun
        rows += len(moved)
    return (
        1e6 * taking / LABELS,
        1e6 * counting / votes,
        1e6 * telling / rows,
        1e6 * hearing / rows,
    )


def report(console: Console) -> None:
    """Both algorithms."""
    for algorithm in STREAMED:
        costs(algorithm)  # compiled code is loaded
        take, count, tell, hear = costs(algorithm)
        console.print(
            f"{algorithm}: {take:.2f} µs to take a label, {count:.2f} to count another instance's "
            f"vote, {tell:.2f} to tell of a task, {hear:.2f} to hear of one"
        )


if __name__ == "__main__":
    report(Console())
