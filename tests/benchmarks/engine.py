"""The engine by itself: labels per second as they arrive, memory for each, seconds to settle."""

import json
import subprocess
import sys
from pathlib import Path
from time import process_time
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from sbic.engine import AlgorithmName
from sbic.engine.engine import Engine
from sbic.engine.labels import Ints

LABELS_PER_TASK, LABELS_PER_WORKER = 20, 100
SIZES = (1_000_000, 10_000_000)
BATCH = 10_000
SETTLED_TO = 1e-6


def crowd(labels: int) -> tuple[Ints, Ints, Ints]:
    """Tasks, workers and answers of a crowd of Beta(4, 3), in random order, no pair twice."""
    rng = np.random.default_rng(1)
    tasks, workers = labels // LABELS_PER_TASK, labels // LABELS_PER_WORKER
    task = np.repeat(np.arange(tasks), LABELS_PER_TASK)
    # steps through all workers from a random one, so that a task has no worker twice
    start = np.repeat(rng.integers(0, workers, tasks), LABELS_PER_TASK)
    step = np.repeat(rng.integers(1, workers // LABELS_PER_TASK, tasks), LABELS_PER_TASK)
    worker = (start + step * np.tile(np.arange(LABELS_PER_TASK), tasks)) % workers
    truth = rng.integers(0, 2, tasks)
    is_right = rng.random(labels) < rng.beta(4, 3, workers)[worker]
    answer = np.where(is_right, truth[task], 1 - truth[task])
    order = rng.permutation(labels)
    return task[order], worker[order], answer[order]


def resident() -> int:
    """Bytes of memory in use."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


def measure(algorithm: AlgorithmName, labels: int) -> dict[str, Any]:
    """One engine in a separate process; seconds are CPU time."""
    columns = crowd(labels)
    few = Engine(algorithm)
    few.take([0], [0], [1])
    few.settle(SETTLED_TO)  # all is compiled now
    before = resident()
    engine = Engine(algorithm)
    begin = process_time()
    for first in range(0, labels, BATCH):
        engine.take(*(column[first : first + BATCH] for column in columns))
    arrived = process_time()
    memory = resident() - before
    sweeps = engine.settle(SETTLED_TO).sweeps
    return {
        "algorithm": algorithm,
        "labels": labels,
        "per_second": labels / (arrived - begin),
        "bytes": memory / labels,
        "sweeps": sweeps,
        "settle_seconds": process_time() - arrived,
    }


def report(console: Console) -> None:
    """A row for each algorithm and size."""
    table = Table("algorithm", "labels", "labels per second", "ratio", "bytes a label", "to settle")
    for algorithm in ("fast-sbic", "settled"):
        first = 0.0
        for size in SIZES:
            command = [sys.executable, "-m", "tests.benchmarks.engine", algorithm, str(size)]
            run = subprocess.run(command, stdout=subprocess.PIPE, check=True)
            found = json.loads(run.stdout)
            first = first or found["per_second"]
            settling = f"{found['settle_seconds']:.1f} s ({found['sweeps']} sweeps)"
            table.add_row(
                algorithm,
                f"{size:,}",
                f"{found['per_second']:,.0f}",
                f"{found['per_second'] / first:.2f}",
                f"{found['bytes']:.0f}",
                settling if algorithm == "settled" else "",
            )
    console.print(table)


if __name__ == "__main__":
    name: Any = sys.argv[1]
    print(json.dumps(measure(name, int(sys.argv[2]))))
