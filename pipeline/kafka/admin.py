"""Creates, checks, alters and deletes the topics of a project."""

import asyncio
from collections.abc import Collection, Iterable

from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.errors import (
    ClusterAuthorizationFailedError,
    TopicAlreadyExistsError,
    TopicAuthorizationFailedError,
    UnknownTopicOrPartitionError,
)

from pipeline.kafka.access.granted import describe_topics
from pipeline.kafka.access.rights import Need, Operation
from pipeline.kafka.admin_client import connected_admin, why
from pipeline.kafka.errors import MayNotCreate, Refused
from pipeline.kafka.found_topics import check_found, find_topics, misconfigured, topic_overrides
from pipeline.settings import Settings
from pipeline.topics import Topic, Topics

POLL_SECONDS = 0.05
NOT_AUTHORIZED = (TopicAuthorizationFailedError.errno, ClusterAuthorizationFailedError.errno)


async def ensure_topics(settings: Settings) -> list[Topic]:
    """Create the missing topics and return them; if an existing one is wrong, change nothing.

    Raises `Unreachable`, `WrongTopics` or `Refused`.
    """
    topics = list(Topics(settings))
    await _check_rights(settings, topics, Operation.DESCRIBE_CONFIGS)
    async with connected_admin(settings) as admin:
        found = await find_topics(admin, topics)
        check_found(topics, found)
        missing = [topic for topic in topics if topic.name not in found]
        # another process may create the same topics at the same time
        just_made = await _create(admin, settings, missing, validate_only=True)
        await _wait_and_check(admin, just_made)
        missing = [topic for topic in missing if topic not in just_made]
        made_by_others = await _create(admin, settings, missing, validate_only=False)
        await _wait_and_check(admin, missing)
        return [topic for topic in missing if topic not in made_by_others]


async def check_topics(settings: Settings, without: Collection[Topic] = ()) -> list[Topic]:
    """The topics that are missing; raises as `ensure_topics` does, and changes nothing."""
    topics = [topic for topic in Topics(settings) if topic not in without]
    await _check_rights(settings, topics, Operation.DESCRIBE_CONFIGS)
    async with connected_admin(settings) as admin:
        found = await find_topics(admin, topics)
    check_found(topics, found)
    return [topic for topic in topics if topic.name not in found]


async def alter_topics(settings: Settings) -> None:
    """Configure the existing topics as the settings need; keep all other configuration."""
    topics = list(Topics(settings))
    async with connected_admin(settings) as admin:
        wrong = misconfigured(topics, await find_topics(admin, topics))
        if not wrong:
            return
        await _check_rights(settings, wrong, Operation.ALTER_CONFIGS)
        (response,) = await admin.alter_configs(
            [
                ConfigResource(
                    ConfigResourceType.TOPIC,
                    topic.name,
                    {**await topic_overrides(admin, topic.name), **topic.config},
                )
                for topic in wrong
            ]
        )
        for error_code, message, _, name in response.resources:
            if error_code:
                raise Refused(f"Kafka does not configure {name}: {why(error_code, message)}")
        while True:
            if not misconfigured(wrong, await find_topics(admin, wrong)):
                return
            await asyncio.sleep(POLL_SECONDS)


async def delete_topics(settings: Settings, names: Collection[str]) -> None:
    """Delete those of the topics that exist; they are gone on return."""
    await describe_topics(settings, [Need(name, Operation.DELETE) for name in names])
    async with connected_admin(settings) as admin:
        existing = set(names) & set(await admin.list_topics())
        if not existing:
            return
        response = await admin.delete_topics(sorted(existing))
        for name, error_code, *message in response.topic_error_codes:
            if error_code and error_code != UnknownTopicOrPartitionError.errno:
                reason = why(error_code, message[0] if message else None)
                raise Refused(f"Kafka does not delete {name}: {reason}")
        while True:
            if not existing & set(await admin.list_topics()):
                return
            await asyncio.sleep(POLL_SECONDS)


async def _check_rights(settings: Settings, topics: Iterable[Topic], operation: Operation) -> None:
    """Raise `NotAllowed` unless this client is authorized for the operation on existing topics."""
    await describe_topics(settings, [Need(topic.name, operation) for topic in topics])


async def _create(
    admin: AIOKafkaAdminClient,
    settings: Settings,
    topics: Collection[Topic],
    *,
    validate_only: bool,
) -> list[Topic]:
    """Create the topics, or only check that they can be; returns those that already exist."""
    requests = [
        NewTopic(
            topic.name,
            topic.partitions,
            topic.replication,
            topic_configs={**topic.config, **topic.tuning},
        )
        for topic in topics
    ]
    if not requests:
        return []
    response = await admin.create_topics(requests, validate_only=validate_only)
    existing = set()
    for name, error_code, message in response.topic_errors:
        if error_code == TopicAlreadyExistsError.errno:
            existing.add(name)
        elif error_code in NOT_AUTHORIZED:
            raise MayNotCreate(name, settings)
        elif error_code:
            raise Refused(f"Kafka does not create {name}: {why(error_code, message)}")
    return [topic for topic in topics if topic.name in existing]


async def _wait_and_check(admin: AIOKafkaAdminClient, topics: Collection[Topic]) -> None:
    """Wait until all of these new topics exist and have leaders, then check them."""
    while topics:
        found = await find_topics(admin, topics)
        if len(found) == len(topics) and all(topic.has_leaders for topic in found.values()):
            check_found(topics, found)
            return
        await asyncio.sleep(POLL_SECONDS)
