"""`make bench`: everything in one run on one embedded broker, as ratios."""

import asyncio
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from statistics import median
from tempfile import TemporaryDirectory
from typing import IO

from aiokafka import ConsumerRecord
from orjson import loads
from rich.console import Console
from rich.table import Table

from sbic.kafka.admin import ensure_topics
from sbic.local.broker import EmbeddedBroker
from sbic.project.settings import Settings
from sbic.project.topics import Topics
from sbic.wire.labels import encode_label
from sbic.wire.partitions import partition_of
from tests.benchmarks import assignments, engine, gateway
from tests.benchmarks.latency import Place, milliseconds, summary
from tests.benchmarks.workload import RandomCrowd, produce, seconds_until_counted
from tests.instances import instance

ROUNDS = 2
LATENCY_ROUNDS = 5  # of a time that other programs on the machine shift by half of it
RATE = 500
SECONDS = 10
STOCK_LABELS = 10_000
ALGORITHMS = ("fast-sbic", "settled")

console = Console()


@contextmanager
def contestant(module: str, settings: Settings, *arguments: str) -> Iterator[IO[str]]:
    """What another program prints that runs meanwhile; it is killed at the end."""
    env = {**os.environ, "SBIC_BROKER": settings.broker, "SBIC_PREFIX": settings.prefix}
    with TemporaryDirectory() as folder:
        process = subprocess.Popen(
            [sys.executable, "-m", f"tests.benchmarks.{module}", *arguments],
            env=env | {"TMPDIR": folder},
            stdout=subprocess.PIPE,
            text=True,
        )
        assert process.stdout
        try:
            yield process.stdout
        finally:
            process.kill()
            process.communicate()


def labels_per_second(module: str, settings: Settings, labels: int) -> float:
    """Of a program that prints the seconds it took."""
    with contestant(module, settings, str(labels)) as printed:
        return labels / float(printed.readline())


def project_with(broker: EmbeddedBroker, name: str, crowd: RandomCrowd) -> Settings:
    """Topics of their own, with the crowd's labels on them."""
    settings = Settings(broker=broker.url, prefix=name)
    asyncio.run(ensure_topics(settings))
    asyncio.run(produce(settings, crowd.records()))
    return settings


def throughput(broker: EmbeddedBroker) -> None:
    """Whole pipeline, raw loop and stock Faust, one after the other, in each round."""
    crowd = RandomCrowd()
    table = Table(
        "round",
        "raw loop",
        *(column for name in ALGORITHMS for column in (name, "of raw")),
        "stock Faust",
        "fast-sbic / stock",
        title="labels per second",
    )
    for number in range(1, ROUNDS + 1):
        rates: dict[str, float] = {}
        for name in ALGORITHMS:
            settings = project_with(broker, f"{name}-{number}", crowd)
            if not rates:
                rates["raw"] = labels_per_second("raw_loop", settings, crowd.labels)
            with instance(broker.url, settings.prefix, SBIC_ALGORITHM=name) as running:
                seconds = seconds_until_counted(settings, running, crowd.labels)
                rates[name] = crowd.labels / seconds
        stock = labels_per_second("stock_faust", settings, STOCK_LABELS)
        cells = [f"{rates['raw']:,.0f}"]
        for name in ALGORITHMS:
            cells += [f"{rates[name]:,.0f}", f"{rates[name] / rates['raw']:.2f}"]
        cells += [f"{stock:,.0f}", f"{rates['fast-sbic'] / stock:.1f}"]
        table.add_row(str(number), *cells)
    console.print(table)


def in_sources(record: ConsumerRecord) -> list[Place]:
    """The labels that a posterior is the first to have, or may be."""
    return list(loads(record.value)["sources"].items())


def in_header(record: ConsumerRecord) -> list[Place]:
    """The label that an echo comes from."""
    partition, offset = dict(record.headers)["from"].split(b":")
    return [(partition.decode(), int(offset))]


def latency(broker: EmbeddedBroker) -> None:
    """An echo over two hops at a steady rate, then label to posterior, in each round."""
    # a task for each label: then its posterior has just that label's offset among its sources
    values = [
        (f"w{n % 200}", encode_label(f"t{n}", f"w{n % 200}", 1)) for n in range(RATE * SECONDS)
    ]
    table = Table(
        "round", "echo p50", "p99", "pipeline p50", "p99", "ratio p50", "p99", title="milliseconds"
    )
    projects = {
        name: [Settings(broker=broker.url, prefix=f"{name}-{n}") for n in range(LATENCY_ROUNDS)]
        for name in ("echo", "latency")
    }
    for settings in [*projects["echo"], *projects["latency"]]:
        asyncio.run(ensure_topics(settings))  # ahead: a new partition has no leader for a moment
    records = [
        (worker.encode(), value, partition_of(worker.encode(), settings.partitions))
        for worker, value in values
    ]
    rounds = []
    for number, (echoing, settings) in enumerate(zip(*projects.values(), strict=True), 1):
        with contestant("echo", echoing) as printed:
            assert printed.readline() == "ready\n"
            end = Topics(echoing).dead_letters.name
            echo = summary(asyncio.run(milliseconds(echoing, end, in_header, records, RATE)))
        with instance(broker.url, settings.prefix) as running:
            running.wait_ready(60)
            end = Topics(settings).posteriors.name
            ours = summary(asyncio.run(milliseconds(settings, end, in_sources, records, RATE)))
        ratios = [mine / other for mine, other in zip(ours, echo, strict=True)]
        rounds.append((*echo, *ours, *ratios))
        table.add_row(str(number), *cells(rounds[-1]))
    # of the ratios, too: echo and pipeline of one round have had the machine in the same mood
    table.add_row("median", *cells([median(column) for column in zip(*rounds, strict=True)]))
    console.print(table)


def cells(numbers: Sequence[float]) -> list[str]:
    """Milliseconds, and the ratios behind them."""
    return [f"{value:.1f}" for value in numbers[:4]] + [f"{ratio:.2f}" for ratio in numbers[4:]]


if __name__ == "__main__":
    engine.report(console)
    with EmbeddedBroker() as kafka:
        throughput(kafka)
        latency(kafka)
        assignments.throughput(kafka)
        gateway.throughput(kafka)
        gateway.assignments(kafka)
    assignments.cost_by_open_tasks()
    assignments.cost_by_answers()
    assignments.cost_by_policy()
