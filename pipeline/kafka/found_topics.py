"""Topics as they are on the cluster, compared with what the project needs."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.errors import UnknownTopicOrPartitionError

from pipeline.kafka.admin_client import why
from pipeline.kafka.errors import Mismatch, Refused, WrongTopics
from pipeline.topics import Topic

DYNAMIC_TOPIC_CONFIG = 1  # the source of a configuration entry, in responses since version 1


@dataclass(frozen=True)
class Found:
    """A topic as it is on the cluster."""

    partitions: int
    replication: int
    config: Mapping[str, str]
    has_leaders: bool


async def find_topics(admin: AIOKafkaAdminClient, topics: Iterable[Topic]) -> dict[str, Found]:
    """Those of the topics that exist, by name."""
    # metadata of all topics is requested: a request that names a missing topic may create it
    described = {entry["topic"]: entry for entry in await admin.describe_topics()}
    names = [topic.name for topic in topics if topic.name in described]
    configs = await _configs(admin, names)
    return {name: _found(described[name]["partitions"], configs[name]) for name in configs}


def _found(partitions: list[dict[str, Any]], config: Mapping[str, str]) -> Found:
    return Found(
        partitions=len(partitions),
        replication=min((len(partition["replicas"]) for partition in partitions), default=0),
        config=config,
        has_leaders=all(partition["leader"] >= 0 for partition in partitions),
    )


async def _configs(
    admin: AIOKafkaAdminClient, names: Collection[str]
) -> dict[str, Mapping[str, str]]:
    if not names:
        return {}
    resources = [ConfigResource(ConfigResourceType.TOPIC, name) for name in names]
    (response,) = await admin.describe_configs(resources)
    configs: dict[str, Mapping[str, str]] = {}
    for error_code, message, _, name, entries in response.resources:
        if error_code == UnknownTopicOrPartitionError.errno:
            continue  # just created: this broker does not have its metadata yet
        if error_code:
            raise Refused(f"cannot read the configuration of {name}: {why(error_code, message)}")
        configs[name] = {entry[0]: entry[1] for entry in entries}
    return configs


async def topic_overrides(admin: AIOKafkaAdminClient, name: str) -> dict[str, str]:
    """The configuration set on this topic itself, without the broker's defaults."""
    (response,) = await admin.describe_configs([ConfigResource(ConfigResourceType.TOPIC, name)])
    ((_, _, _, _, entries),) = response.resources
    return {
        key: value
        for key, value, _read_only, source, *_ in entries
        if source == DYNAMIC_TOPIC_CONFIG
    }


def check_found(topics: Iterable[Topic], found: Mapping[str, Found]) -> None:
    """Raise `WrongTopics` if any topic that exists is not as the project needs it."""
    wrong = [
        mismatch
        for topic in topics
        if topic.name in found
        for mismatch in mismatches(topic, found[topic.name])
    ]
    if wrong:
        raise WrongTopics(wrong)


def mismatches(topic: Topic, found: Found) -> list[Mismatch]:
    """How a topic differs from what is needed; extra replicas are fine.

    >>> from pipeline.settings import Settings
    >>> from pipeline.topics import Topics
    >>> labels = Topics(Settings()).labels
    >>> [str(wrong) for wrong in mismatches(labels, Found(4, 3, labels.config, True))]
    ['sbic.labels has 4 partitions and needs 8']
    """
    wrong = []
    if found.partitions != topic.partitions:
        has = _count(found.partitions, "partition")
        wrong.append(Mismatch(topic.name, has, str(topic.partitions)))
    if found.replication < topic.replication:
        has = _count(found.replication, "replica")
        wrong.append(Mismatch(topic.name, has, str(topic.replication)))
    for name, needed in topic.config.items():
        value = found.config.get(name)
        if value != needed:
            wrong.append(Mismatch(topic.name, f"{name}={value}", needed))
    return wrong


def misconfigured(topics: Iterable[Topic], found: Mapping[str, Found]) -> list[Topic]:
    """The topics that exist with another configuration than they need."""
    return [
        topic
        for topic in topics
        if topic.name in found and not topic.config.items() <= found[topic.name].config.items()
    ]


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
