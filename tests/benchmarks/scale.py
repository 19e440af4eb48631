"""`make scale`: what a label costs as a project grows, recovers, and is shared by instances."""

import asyncio
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from time import monotonic, sleep
from typing import NamedTuple

import numpy as np
from aiokafka import AIOKafkaProducer
from aiokafka.producer.message_accumulator import BatchBuilder
from rich.console import Console

from sbic.engine import AlgorithmName
from sbic.infer.registry import STREAMED
from sbic.kafka.admin import ensure_topics
from sbic.kafka.connect import client_options
from sbic.local.broker import EmbeddedBroker
from sbic.progress import progress
from sbic.project.opening import open_project
from sbic.project.repartition import begin_repartition, repartition
from sbic.project.revision import Given
from sbic.project.settings import Settings
from sbic.project.topics import Topics
from sbic.wire.partitions import partition_of
from tests.instances import RunningInstance, instance

LABELS_PER_TASK = 20
LABELS_PER_WORKER = 100
SHARED_LABELS = 500_000
SHARED_ROUNDS = 5
AT_ONCE = 100_000

console = Console()


class Sample(NamedTuple):
    """What an instance had done and used when it was looked at."""

    labels: float
    cpu_seconds: float
    bytes: float


def sample(running: RunningInstance) -> Sample:
    """Look at an instance."""
    metrics = running.metrics()
    taken = metrics.get('sbic_labels_total{outcome="counted"}', 0.0)
    return Sample(
        (taken + metrics["sbic_votes_total"]) / 2,  # taken, and its vote counted: a label is done
        metrics["process_cpu_seconds_total"],
        metrics["process_resident_memory_bytes"],
    )


def crowd(labels: int, workers: int | None = None) -> Iterator[tuple[str, bytes]]:
    """Worker and label, 20 for each task and about 100 of each worker, in a random order of tasks.

    Each task has workers of its own choice: in groups that share no tasks, settled would have
    several points of rest. With one worker every task has one label.
    """
    rng = np.random.default_rng(labels)
    per_task = LABELS_PER_TASK if workers is None else workers
    tasks = labels // per_task
    crowd_size = workers or labels // LABELS_PER_WORKER
    knows = rng.beta(4, 3, crowd_size)
    truth = rng.integers(0, 2, tasks)
    first = rng.integers(0, crowd_size, tasks)
    step = rng.integers(1, max(2, crowd_size // per_task), tasks)  # no worker comes round again
    for number in range(per_task):
        order = rng.permutation(tasks)
        who = (first[order] + number * step[order]) % crowd_size
        right = rng.random(tasks) < knows[who]
        says = np.where(right, truth[order], 1 - truth[order]) * 2 - 1
        for i, j, x in zip(order.tolist(), who.tolist(), says.tolist(), strict=True):
            yield f"w{j}", b'{"task":"t%d","worker":"w%d","label":%d}' % (i, j, x)


async def produce(settings: Settings, labels: int, workers: int | None = None) -> None:
    """Put a crowd's labels on the topic: all of them are encoded first, and then sent at once."""
    topic = Topics(settings).labels.name
    homes: dict[str, int] = {}
    async with AIOKafkaProducer(**client_options(settings), max_batch_size=1 << 18) as producer:
        full: list[tuple[int, BatchBuilder]] = []
        with progress("labels encoded", labels) as advance:
            builders = [producer.create_batch() for _ in range(settings.partitions)]
            for number, (worker, value) in enumerate(crowd(labels, workers), 1):
                home = homes.get(worker)
                if home is None:
                    home = homes[worker] = partition_of(worker.encode(), settings.partitions)
                key = worker.encode()
                if builders[home].append(key=key, value=value, timestamp=None) is None:
                    full.append((home, builders[home]))
                    builders[home] = producer.create_batch()
                    builders[home].append(key=key, value=value, timestamp=None)
                if number % AT_ONCE == 0:
                    advance(AT_ONCE)
        for home, builder in [*full, *enumerate(builders)]:
            await producer.send_batch(builder, topic, partition=home)


def samples_until(
    running: list[RunningInstance], labels: int, seconds: float = 0.5
) -> list[list[Sample]]:
    """Sample instances at an interval until they have counted these labels together."""
    found: list[list[Sample]] = []
    with progress("labels counted", labels) as advance:
        counted = 0.0
        while counted < labels:
            sleep(seconds)
            found.append([sample(one) for one in running])
            now = sum(one.labels for one in found[-1])
            advance(int(min(now, labels) - counted))
            counted = min(now, labels)
    return found


def cost(samples: list[Sample], first: float, last: float) -> tuple[float, float]:
    """CPU in microseconds and bytes for each label between these shares of all labels."""
    labels, seconds, used = np.array(samples).T
    span = np.array([first, last]) * labels[-1]
    count = span[1] - span[0]
    return (
        1e6 * float(np.diff(np.interp(span, labels, seconds))[0]) / count,
        float(np.diff(np.interp(span, labels, used))[0]) / count,
    )


def growth(broker: EmbeddedBroker, algorithm: AlgorithmName, labels: int) -> None:
    """A project that grows on one instance, and is recovered by the next."""
    settings = project(broker, f"growth-{algorithm}-{labels}", algorithm)
    asyncio.run(produce(settings, labels))
    env = {"SBIC_ALGORITHM": algorithm}
    with instance(broker.url, settings.prefix, **env) as running:
        running.wait_ready(60)
        begun = monotonic()
        samples = [one for (one,) in samples_until([running], labels)]
        rate = labels / (monotonic() - begun)
        early, _ = cost(samples, 0.05, 0.15)
        late, _ = cost(samples, 0.9, 1.0)
        _, more = cost(samples, 0.1, 1.0)
        used = samples[-1].bytes
        running.terminate(60)
    console.print(
        f"{algorithm}, {labels:,} labels: {rate:,.0f} labels/s; CPU {early:.1f} µs a label at the "
        f"tenth part, {late:.1f} at the end, ratio {late / early:.2f}; {used / 1e6:,.0f} MB, "
        f"{more:.0f} bytes for each further label"
    )
    with instance(broker.url, settings.prefix, **env) as running:
        running.wait_ready(600)
        seconds = running.metrics()["sbic_recovery_seconds"]
        peak = peak_bytes(running)
    console.print(
        f"  recovered in {seconds:.1f} s, {labels / seconds:,.0f} labels/s, "
        f"with at most {peak / 1e6:,.0f} MB, {peak / used:.2f} times that of the one before"
    )


def peak_bytes(running: RunningInstance) -> float:
    """The most memory that an instance has used."""
    with open(f"/proc/{running.process.pid}/status") as status:
        fields = dict(line.split(":", 1) for line in status)
    return 1024.0 * int(fields["VmHWM"].split()[0])


def project(broker: EmbeddedBroker, name: str, algorithm: AlgorithmName) -> Settings:
    """Topics of their own."""
    settings = Settings(broker=broker.url, prefix=name, algorithm=algorithm)
    asyncio.run(ensure_topics(settings))
    return settings


def shared(broker: EmbeddedBroker, algorithm: AlgorithmName) -> None:
    """What a label costs on one instance, and on four together: in turns, as machines are noisy."""
    rounds = []
    for number in range(SHARED_ROUNDS):
        one, four = (shared_cost(broker, algorithm, number, count) for count in (1, 4))
        rounds.append((four / one, one, four))
        console.print(f"  {one:.1f} µs a label on one instance, {four:.1f} on four", style="dim")
    ratios, ones, fours = np.array(rounds).T
    console.print(
        f"{algorithm}: CPU of all instances {np.median(ones):.1f} µs a label on one, "
        f"{np.median(fours):.1f} on four; ratio {np.median(ratios):.2f}, "
        f"from {ratios.min():.2f} to {ratios.max():.2f} in {SHARED_ROUNDS} rounds"
    )


def shared_cost(broker: EmbeddedBroker, algorithm: AlgorithmName, number: int, count: int) -> float:
    """CPU in microseconds for each label, of all of these instances."""
    settings = project(broker, f"shared-{algorithm}-{number}-{count}", algorithm)
    with ExitStack() as stack:
        running = [
            stack.enter_context(instance(broker.url, settings.prefix, SBIC_ALGORITHM=algorithm))
            for _ in range(count)
        ]
        for one in running:
            one.wait_ready(60)
        before = sum(sample(one).cpu_seconds for one in running)
        asyncio.run(produce(settings, SHARED_LABELS))
        # the last sample has other work too: settled comes to rest once there are no new labels
        *_, busy, _ = samples_until(running, SHARED_LABELS)
        labels, seconds, _ = np.sum(busy, axis=0)
        return 1e6 * float(seconds - before) / float(labels)


def one_worker(broker: EmbeddedBroker, algorithm: AlgorithmName, labels: int) -> None:
    """A worker who gives all labels, and many workers of whom each gives a hundred."""
    costs = []
    for workers in (1, labels // LABELS_PER_WORKER):
        settings = project(broker, f"worker-{algorithm}-{workers}", algorithm)
        asyncio.run(produce_single(settings, labels, workers))
        with instance(broker.url, settings.prefix, SBIC_ALGORITHM=algorithm) as running:
            running.wait_ready(60)
            samples = [one for (one,) in samples_until([running], labels)]
            costs.append(cost(samples, 0.8, 1.0)[0])
    console.print(
        f"{algorithm}, {labels:,} labels: CPU {costs[0]:.1f} µs a label at the end of one worker, "
        f"{costs[1]:.1f} of workers with {LABELS_PER_WORKER} each, ratio {costs[0] / costs[1]:.2f}"
    )


async def produce_single(settings: Settings, labels: int, workers: int) -> None:
    """One label for each task, on one partition, by this many workers."""
    topic = Topics(settings).labels.name
    names = [n for n in range(20 * workers) if partition_of(b"w%d" % n, settings.partitions) == 0]
    async with AIOKafkaProducer(**client_options(settings), max_batch_size=1 << 18) as producer:
        builder = producer.create_batch()
        for number in range(labels):
            j = names[number % min(workers, len(names))]
            value = b'{"task":"t%d","worker":"w%d","label":%d}' % (number, j, 1 - 2 * (number % 2))
            if builder.append(key=b"w%d" % j, value=value, timestamp=None) is None:
                await producer.send_batch(builder, topic, partition=0)
                builder = producer.create_batch()
                builder.append(key=b"w%d" % j, value=value, timestamp=None)
        await producer.send_batch(builder, topic, partition=0)


def made(broker: EmbeddedBroker, name: str) -> Settings:
    """Return the settings of a new project, which instances follow."""
    given = Settings(broker=broker.url, prefix=name, algorithm="settled")
    return asyncio.run(open_project(Given.of(given))).settings


def carried(broker: EmbeddedBroker, labels: int) -> None:
    """How long it takes to give a project with so many labels other partitions."""
    settings = made(broker, f"carried-{labels}")
    asyncio.run(produce(settings, labels))
    begun = monotonic()
    revision = asyncio.run(begin_repartition(settings, 4 * settings.partitions))
    assert revision
    asyncio.run(repartition(settings, revision, console.print))
    seconds = monotonic() - begun
    console.print(
        f"{labels:,} labels get other partitions in {seconds:.0f} s, without counting: "
        f"{labels / seconds:,.0f} labels/s, "
        f"{1e7 / labels * seconds / 60:.0f} minutes for 10,000,000"
    )


def main(sizes: list[int]) -> None:
    """Everything, one after the other."""
    with EmbeddedBroker() as broker:
        carried(broker, sizes[0])
        for algorithm in STREAMED:
            shared(broker, algorithm)
            one_worker(broker, algorithm, sizes[0])
            for labels in sizes:
                growth(broker, algorithm, labels)


if __name__ == "__main__":
    main([int(argument) for argument in sys.argv[1:]] or [1_000_000, 10_000_000])
