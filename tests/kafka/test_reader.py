"""Whoever reads a topic to its end comes to one, whatever happens to the topic meanwhile."""

import asyncio

import pytest
from aiokafka import AIOKafkaProducer

from sbic.kafka.admin import delete_topics, ensure_topics
from sbic.kafka.errors import Refused
from sbic.kafka.reader import Reader, reading
from sbic.project.settings import Settings
from sbic.project.topics import Topics
from tests.projects import sbic, write


async def read_all(reader: Reader) -> None:
    async for _ in reader.to_the_end():
        pass


LARGE = bytes(900_000)  # few of them come with one fetch


async def test_a_topic_that_was_recreated_does_not_let_its_readers_wait_for_ever(
    project: Settings,
) -> None:
    topic = Topics(project).posteriors.name
    await write(project, topic, [(b"t1", LARGE)] * 6)
    async with reading(project, topic, from_start=True) as reader:
        await delete_topics(project, [topic])
        await ensure_topics(project)
        await write(project, topic, [(b"t1", b"new")])
        with pytest.raises(Refused, match=f"{topic} was recreated meanwhile"):
            await asyncio.wait_for(read_all(reader), timeout=60)


async def test_a_transaction_that_stays_open_holds_nobody_up(project: Settings) -> None:
    producer = AIOKafkaProducer(
        bootstrap_servers=project.bootstrap_servers,
        transactional_id=project.prefix,
        transaction_timeout_ms=600_000,
    )
    async with producer:
        await producer.begin_transaction()
        await producer.send_and_wait(Topics(project).posteriors.name, b"{}", key=b"t1")
        ended = await asyncio.to_thread(sbic, project, "status")
        assert ended.returncode == 0, ended.stderr
        await producer.abort_transaction()
