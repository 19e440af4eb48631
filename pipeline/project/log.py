"""The project topic: reads the revisions of a project, and appends new ones."""

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition

from pipeline.kafka.access.granted import describe_topics
from pipeline.kafka.access.rights import Need, Operation
from pipeline.kafka.connection import connected
from pipeline.kafka.options import client_options
from pipeline.project.errors import Conflict
from pipeline.project.revision import Revision, encode_revision, last_revision
from pipeline.settings import Settings
from pipeline.topics import Topics


async def read_project(settings: Settings) -> Revision | None:
    """The last revision of the project, or None if there is no project with this prefix."""
    topic = Topics(settings).project.name
    # a consumer would create a missing topic
    if not await describe_topics(settings, [Need(topic, Operation.READ)]):
        return None
    async with connected(log_consumer(settings), settings) as consumer:
        return await read_on(consumer, TopicPartition(topic, 0), None)


def log_consumer(settings: Settings) -> AIOKafkaConsumer:
    """A consumer for `read_on`."""
    return AIOKafkaConsumer(
        **client_options(settings),
        client_id=f"{settings.prefix}-project",
        enable_auto_commit=False,
        auto_offset_reset="earliest",
    )


async def read_on(
    consumer: AIOKafkaConsumer, place: TopicPartition, before: Revision | None
) -> Revision | None:
    """The last revision, reading from the consumer's position to the current end."""
    if place not in consumer.assignment():
        consumer.assign([place])
    ends = await consumer.end_offsets([place])
    last = before
    while await consumer.position(place) < ends[place]:
        fetched = await consumer.getmany(timeout_ms=1000)
        for records in fetched.values():
            last = last_revision((record.value for record in records), last)
    return last


async def append(settings: Settings, revision: Revision) -> None:
    """Publish a revision; raises `Conflict` if another one with this number came first."""
    topic = Topics(settings).project.name
    await describe_topics(settings, [Need(topic, Operation.WRITE)])
    producer = AIOKafkaProducer(**client_options(settings), enable_idempotence=True, acks="all")
    async with connected(producer, settings):
        await producer.send_and_wait(topic, encode_revision(revision), partition=0)
    if await read_project(settings) != revision:
        raise Conflict(settings.prefix)
