"""Labels of a transaction count once it is committed; an open one holds up its partition only."""

from aiokafka import AIOKafkaProducer

from sbic.client import Posterior
from sbic.local.broker import EmbeddedBroker
from sbic.wire.labels import encode_label
from sbic.wire.partitions import partition_of
from tests.agents.kafka import ProjectOnBroker, project, until
from tests.instances import RunningInstance, instance

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
