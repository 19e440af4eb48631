"""A project without its answers topic is refused: its labels would not count."""

from aiokafka import AIOKafkaConsumer, TopicPartition

from sbic.local.broker import EmbeddedBroker
from tests.agents.crowd import crowd
from tests.agents.kafka import ProjectOnBroker, project
from tests.instances import RunningInstance, instance

BEFORE = b'{"taken":[[1,9]],"votes":{"0":[["t1","w1",1,0.5,1,9,0]]}}'


async def commit(here: ProjectOnBroker, offsets: dict[int, int]) -> None:
    """Let the group have committed labels up to these offsets."""
    consumer = AIOKafkaConsumer(
        bootstrap_servers=here.settings.bootstrap_servers,
        group_id=here.settings.prefix,
        enable_auto_commit=False,
    )
    async with consumer:
        topic = here.topics.labels.name
        places = {TopicPartition(topic, partition): end for partition, end in offsets.items()}
        consumer.assign(list(places))
        await consumer.commit(places)


def refusal(running: RunningInstance) -> str:
    """What an instance says that ends with status 1."""
    assert running.process.wait(60) == 1
    [said] = [line for line in running.log().splitlines() if line.startswith("sbic: ")]
    assert "Traceback" not in running.log()
    return said


async def test_a_project_of_the_version_before_is_refused_with_the_way_out(
    broker: EmbeddedBroker,
) -> None:
    here = await project(broker)
    places = await here.send(crowd(labels=200, tasks=20, workers=20, seed=51))
    async with here.producer() as producer:
        await producer.send_and_wait(here.topics.answers.name, BEFORE, partition=places[0][0])
    await commit(here, {places[0][0]: 10})
    with instance(broker.url, here.settings.prefix) as running:
        said = refusal(running)
    assert f"labels of {here.topics.labels.name} up to offset 9" in said
    assert "another version of sbic" in said
    assert "No label is lost" in said


async def test_labels_that_no_instance_took_do_not_matter(broker: EmbeddedBroker) -> None:
    here = await project(broker)
    triples = crowd(labels=200, tasks=20, workers=20, seed=52)
    await here.send(triples)
    with instance(broker.url, here.settings.prefix) as running:
        running.wait_ready()
        await here.until_counted(len(triples))
