"""Ordinary Kafka clients, not written by us, produce labels and consume posteriors."""

import asyncio
import json
import random
import subprocess
from collections.abc import Sequence

import pytest
from aiokafka import AIOKafkaProducer
from aiokafka.errors import MessageSizeTooLargeError
from confluent_kafka import Consumer, Producer

from sbic.client import Posterior
from sbic.local.broker import EmbeddedBroker
from sbic.wire.labels import encode_label
from sbic.wire.partitions import partition_of
from tests.agents.crowd import crowd
from tests.agents.kafka import KCAT, ProjectOnBroker, Triple, needs_kcat, project, until
from tests.instances import RunningInstance, instance


def line(triple: Triple) -> str:
    task, worker, label = triple
    return json.dumps({"task": task, "worker": worker, "label": label})


def produce_with_confluent(
    here: ProjectOnBroker, triples: Sequence[Triple], **options: str
) -> None:
    """Send labels, keyed by their worker."""
    producer = Producer({"bootstrap.servers": here.settings.bootstrap_servers[0], **options})
    for triple in triples:
        producer.produce(here.topics.labels.name, key=triple[1], value=line(triple))
    assert producer.flush(30) == 0


def consume_with_confluent(here: ProjectOnBroker, labels: int) -> dict[str, int]:
    """Labels of each task by its last posterior, once they add up."""
    consumer = Consumer(
        {
            "bootstrap.servers": here.settings.bootstrap_servers[0],
            "group.id": f"{here.settings.prefix}-stranger",
            "auto.offset.reset": "earliest",
        }
    )
    consumer.subscribe([here.topics.posteriors.name])
    counts: dict[str, int] = {}
    try:
        while sum(counts.values()) < labels:
            message = consumer.poll(30)
            assert message is not None, "no more posteriors"
            assert message.error() is None, message.error()
            key, value = message.key(), message.value()
            assert key is not None
            assert value is not None
            posterior = json.loads(value)
            assert key.decode() == posterior["task"]
            assert message.partition() == partition_of(key, here.settings.partitions)
            counts[posterior["task"]] = posterior["labels"]
    finally:
        consumer.close()
    return counts


async def test_confluent_kafka_produces_and_consumes(broker: EmbeddedBroker) -> None:
    triples = crowd(labels=600, tasks=60, workers=40, seed=21)
    here = await project(broker)
    with instance(broker.url, here.settings.prefix) as running:
        running.wait_ready()
        half = len(triples) // 2
        await asyncio.to_thread(
            produce_with_confluent, here, triples[:half], partitioner="murmur2_random"
        )
        # its own default is another partitioner: such labels are sent on, and count all the same
        await asyncio.to_thread(produce_with_confluent, here, triples[half:])
        counts = await asyncio.to_thread(consume_with_confluent, here, len(triples))
        metrics = running.metrics()
    assert sum(counts.values()) == len(triples)
    assert metrics['sbic_labels_total{outcome="counted"}'] == len(triples)
    assert metrics['sbic_labels_total{outcome="forwarded"}'] > 0


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
async def test_labels_count_whatever_codec_a_producer_uses(
    broker: EmbeddedBroker, codec: str
) -> None:
    triples = crowd(labels=300, tasks=30, workers=20, seed=22)
    here = await project(broker, partitions=1)
    await asyncio.to_thread(
        produce_with_confluent, here, triples, **{"compression.type": codec, "linger.ms": "100"}
    )
    with instance(broker.url, here.settings.prefix, SBIC_PARTITIONS="1") as running:
        running.wait_ready()
        await here.until_counted(len(triples))
        assert running.terminate() == 0


async def test_a_batch_that_is_larger_than_a_record_may_be_when_unpacked_is_refused(
    broker: EmbeddedBroker,
) -> None:
    here = await project(broker, partitions=1)
    async with AIOKafkaProducer(
        bootstrap_servers=here.settings.bootstrap_servers,
        compression_type="gzip",
        max_request_size=64 << 20,
    ) as producer:
        with pytest.raises(MessageSizeTooLargeError):
            await producer.send_and_wait(here.topics.labels.name, bytes(50 << 20), partition=0)


async def test_librdkafka_and_we_agree_on_the_partition_of_every_key(
    broker: EmbeddedBroker,
) -> None:
    here = await project(broker)
    rng = random.Random(7)
    keys = ["".join(rng.choice("aZ09-_é漢") for _ in range(rng.randint(1, 40))) for _ in range(500)]
    triples: list[Triple] = [("t", key, 1) for key in keys]
    await asyncio.to_thread(produce_with_confluent, here, triples, partitioner="murmur2_random")
    records = await here.read(here.topics.labels.name)
    assert len(records) == len(keys)
    for record in records:
        assert record.partition == partition_of(record.key, here.settings.partitions)


@needs_kcat
async def test_kcat_produces_and_consumes(broker: EmbeddedBroker) -> None:
    assert KCAT is not None
    triples = crowd(labels=200, tasks=30, workers=20, seed=22)
    here = await project(broker)
    server = here.settings.bootstrap_servers[0]
    lines = "".join(f"{triple[1]}|{line(triple)}\n" for triple in triples)
    produce = [KCAT, "-P", "-b", server, "-t", here.topics.labels.name, "-K|"]
    consume = [KCAT, "-C", "-e", "-q", "-b", server, "-t", here.topics.posteriors.name]
    with instance(broker.url, here.settings.prefix) as running:
        running.wait_ready()
        await asyncio.to_thread(
            subprocess.run,
            [*produce, "-X", "topic.partitioner=murmur2_random"],
            input=lines,
            text=True,
            check=True,
            timeout=60,
        )
        await here.until_counted(len(triples))
        read = await asyncio.to_thread(
            subprocess.run, consume, capture_output=True, text=True, check=True, timeout=60
        )
    last = {posterior["task"]: posterior for posterior in map(json.loads, read.stdout.splitlines())}
    assert sum(posterior["labels"] for posterior in last.values()) == len(triples)


# Labels of a transaction count once it is committed; an open one holds up its partition only.


PARTITIONS = 2
HELD, FREE = (next(f"w{n}" for n in range(9) if partition_of(b"w%d" % n, 2) == p) for p in (0, 1))


async def send(here: ProjectOnBroker, producer: AIOKafkaProducer, task: str, *workers: str) -> None:
    for worker in workers:
        await producer.send_and_wait(
            here.topics.labels.name,
            encode_label(task, worker, 1),
            key=worker.encode(),
            partition=partition_of(worker.encode(), PARTITIONS),
        )


def lag(running: RunningInstance) -> float:
    metrics = running.metrics()
    return sum(value for name, value in metrics.items() if name.startswith("sbic_lag_records{"))


def counts(posteriors: dict[str, Posterior]) -> dict[str, int]:
    return {task: posterior["labels"] for task, posterior in posteriors.items()}


async def test_aborted_labels_do_not_count_and_an_open_transaction_holds_up_its_partition_only(
    broker: EmbeddedBroker,
) -> None:
    here = await project(broker, partitions=PARTITIONS)
    env = {"SBIC_PARTITIONS": str(PARTITIONS)}
    servers = here.settings.bootstrap_servers

    async def counted(**expected: int) -> None:
        await here.until_posteriors(lambda found: counts(found) == expected)

    async with (
        AIOKafkaProducer(bootstrap_servers=servers) as plain,
        AIOKafkaProducer(
            bootstrap_servers=servers,
            transactional_id=here.settings.prefix,
            transaction_timeout_ms=600_000,
        ) as within,
    ):
        with instance(broker.url, here.settings.prefix, **env) as running:
            running.wait_ready()
            await within.begin_transaction()
            await send(here, within, "aborted", HELD, FREE)
            await within.abort_transaction()
            async with within.transaction():
                await send(here, within, "committed", HELD, FREE)
            await counted(committed=2)
            await within.begin_transaction()
            await send(here, within, "open", HELD)
            await send(here, plain, "plain", HELD, FREE)
            await counted(committed=2, plain=1)

            async def nothing_waits() -> bool:
                return lag(running) == 0

            await until(nothing_waits)
            running.kill()
        with instance(broker.url, here.settings.prefix, **env) as running:
            running.wait_ready()
            await send(here, plain, "later", HELD, FREE)
            await counted(committed=2, plain=1, later=1)
            await within.commit_transaction()
            await counted(committed=2, open=1, plain=2, later=2)
            await until(nothing_waits)
            assert running.terminate() == 0
