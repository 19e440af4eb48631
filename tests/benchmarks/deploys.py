"""What labels wait for while instances restart in turn, and beside a project that is flooded."""

import asyncio
import json
from collections.abc import Callable
from contextlib import ExitStack
from itertools import count
from time import monotonic, sleep
from typing import NamedTuple

import numpy as np
from aiokafka import AIOKafkaProducer
from rich.console import Console

from sbic.kafka.connect import client_options
from sbic.local.broker import EmbeddedBroker
from sbic.project.settings import Settings
from sbic.project.topics import Topics
from sbic.wire.partitions import partition_of
from tests.benchmarks.latency import tail
from tests.instances import RunningInstance, instance

RATE = 2_000
FLOOD = 50_000
QUIET_RATE = 200
PARTS = 10  # in which a second of the flood is sent
CALM_SECONDS = 20.0
INSTANCES = 4
POISON = [
    b"[" * 20_000,
    b"{",
    b"\xff\xfe",
    b'{"task":"t","worker":"w","label":' + b"9" * 4_000 + b"}",
]

console = Console()


class Waited(NamedTuple):
    """The 50th and 99th percentile of label to posterior in ms, and the longest silence in s.

    A partition of labels is silent from one label of it that is in a posterior to the next.
    """

    median: float
    most: float
    silence: float


class Load:
    """Sends labels at a steady rate, and notes when each is in a posterior."""

    def __init__(self, settings: Settings, rate: int) -> None:
        self.settings = settings
        self.rate = rate
        self.sent: list[list[tuple[int, float]]] = [[] for _ in range(settings.partitions)]
        self.came: list[list[tuple[float, float]]] = [[] for _ in range(settings.partitions)]
        self.upto = [0] * settings.partitions
        self.tasks: dict[str, list[tuple[int, int, float]]] = {}

    async def during(self, meanwhile: Callable[[], None]) -> Waited:
        """Send and listen until something is done, which runs in a thread."""
        topics = Topics(self.settings)
        working = asyncio.create_task(asyncio.to_thread(meanwhile))
        async with (
            tail(self.settings, topics.posteriors.name) as posteriors,
            AIOKafkaProducer(**client_options(self.settings)) as producer,
        ):

            async def listen() -> None:
                while True:
                    for records in (await posteriors.getmany(timeout_ms=200)).values():
                        for record in records:
                            self._in_posterior(json.loads(record.value), monotonic())
                    await asyncio.sleep(0)

            listener = asyncio.create_task(listen())
            begun = monotonic()
            for number in count():
                if working.done():
                    break
                await asyncio.sleep(max(0.0, begun + number / self.rate - monotonic()))
                await self._send(producer, topics.labels.name, number)
            async with asyncio.timeout(120):
                while any(self.tasks.values()):  # noqa: ASYNC110  # a benchmark may poll
                    await asyncio.sleep(0.1)
            listener.cancel()
        await working
        return self._waited()

    async def _send(self, producer: AIOKafkaProducer, topic: str, number: int) -> None:
        task, worker = f"steady{number // 20}", f"w{number * 7919 % 4000}"
        value = b'{"task":"%s","worker":"%s","label":1}' % (task.encode(), worker.encode())
        home, now = partition_of(worker.encode(), self.settings.partitions), monotonic()
        sending = await producer.send(topic, value, key=worker.encode(), partition=home)
        sending.add_done_callback(
            lambda done: self.tasks.setdefault(task, []).append((home, done.result().offset, now))
        )

    def _in_posterior(self, posterior: dict[str, dict[str, int]], now: float) -> None:
        task = str(posterior["task"])
        rest = []
        for home, offset, sent in self.tasks.get(task, ()):
            if posterior["sources"].get(str(home), -1) >= offset:
                self.came[home].append((sent, now))
            else:
                rest.append((home, offset, sent))
        self.tasks[task] = rest

    def _waited(self) -> Waited:
        all_came = [each for came in self.came for each in came]
        waits = [1000 * (now - sent) for sent, now in all_came]
        times = [sorted(now for _, now in came) for came in self.came]
        silence = max(float(np.diff(each).max()) for each in times if len(each) > 1)
        return Waited(float(np.median(waits)), float(np.percentile(waits, 99)), silence)


def rolling(broker: EmbeddedBroker, settings: Settings, labels: int, rate: int = RATE) -> None:
    """Restart four instances in turn, as a StatefulSet does, under a steady load."""
    with ExitStack() as stack:

        def started(number: int) -> RunningInstance:
            return stack.enter_context(
                instance(broker.url, settings.prefix, SBIC_INSTANCE_ID=f"sbic-{number}")
            )

        running = [started(number) for number in range(INSTANCES)]
        for one in running:
            one.wait_ready(120)

        def restart() -> None:
            for number, one in enumerate(running):
                begun = monotonic()
                one.terminate(60)
                stopped = monotonic()
                running[number] = started(number)
                running[number].wait_ready(300)
                console.print(
                    f"  instance {number}: {stopped - begun:.1f} s to stop, "
                    f"{monotonic() - stopped:.1f} s to be ready again",
                    style="dim",
                )

        calm = asyncio.run(Load(settings, rate).during(lambda: sleep(CALM_SECONDS)))
        waited = asyncio.run(Load(settings, rate).during(restart))
    console.print(
        f"rolling restart of {INSTANCES} instances with {labels:,} labels, {rate:,} labels/s: "
        f"99th percentile {waited.most:,.0f} ms, median {waited.median:.0f} (before "
        f"{calm.most:,.0f} and {calm.median:.0f}); no partition silent for longer than "
        f"{waited.silence:.1f} s"
    )


def neighbours(
    broker: EmbeddedBroker, quiet: Settings, flooded: Settings, seconds: float, rate: int = FLOOD
) -> None:
    """The latency of one project beside another that gets more labels than anybody can count."""
    with (
        instance(broker.url, quiet.prefix) as one,
        instance(broker.url, flooded.prefix) as other,
    ):
        one.wait_ready(120)
        other.wait_ready(120)
        alone = asyncio.run(Load(quiet, QUIET_RATE).during(lambda: sleep(seconds)))
        flood = Flood(flooded, rate)
        beside = asyncio.run(
            Load(quiet, QUIET_RATE).during(lambda: asyncio.run(flood.run(seconds)))
        )
        counted = other.metrics()['sbic_labels_total{outcome="counted"}']
    console.print(
        f"{QUIET_RATE} labels/s beside a project that gets {flood.sent / seconds:,.0f} labels/s "
        f"and poison (it has counted {counted:,.0f}): median {beside.median:.0f} ms, alone "
        f"{alone.median:.0f}, ratio {beside.median / alone.median:.2f}; 99th percentile "
        f"{beside.most:,.0f} and {alone.most:,.0f}"
    )


class Flood:
    """Sends labels as fast as told, in whole batches, one record in a hundred of them poison."""

    def __init__(self, settings: Settings, rate: int) -> None:
        self.settings = settings
        self.rate = rate
        self.sent = 0

    async def run(self, seconds: float) -> None:
        """Send for so long."""
        topic = Topics(self.settings).labels.name
        rows = [self._row(number) for number in range(self.rate)]  # the same again every second
        async with AIOKafkaProducer(
            **client_options(self.settings), max_batch_size=1 << 18
        ) as producer:
            begun = monotonic()
            while monotonic() < begun + seconds:
                for home in range(self.settings.partitions):
                    batch = producer.create_batch()
                    for number in range(home, len(rows), self.settings.partitions * PARTS):
                        key, value = rows[(number + self.sent) % len(rows)]
                        if batch.append(key=key, value=value, timestamp=None) is None:
                            break
                        self.sent += 1
                    await producer.send_batch(batch, topic, partition=home)
                await asyncio.sleep(max(0.0, begun + self.sent / self.rate - monotonic()))

    def _row(self, number: int) -> tuple[bytes, bytes]:
        if number % 100 == 0:
            return b"w", POISON[number // 100 % len(POISON)]
        task, worker = number // 20, number * 7919 % 4000
        return b"w%d" % worker, b'{"task":"t%d","worker":"w%d","label":1}' % (task, worker)
