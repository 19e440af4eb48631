"""The projects on a cluster."""

from dataclasses import replace
from typing import NamedTuple

from aiokafka import TopicPartition

from pipeline.kafka.admin_client import connected_admin
from pipeline.kafka.connection import connected
from pipeline.kafka.sizes import extents
from pipeline.project.log import log_consumer, read_on
from pipeline.project.revision import Revision
from pipeline.setting_values import is_name
from pipeline.settings import Settings
from pipeline.topics import Topics

ENDING = ".project"


class Listed(NamedTuple):
    """A project, and how many labels it has."""

    prefix: str
    revision: Revision
    labels: int


async def projects(place: Settings) -> list[Listed]:
    """All projects on this cluster, sorted by prefix."""
    async with connected_admin(place) as admin:
        names = sorted(await admin.list_topics())
    revisions: dict[str, Revision] = {}
    for name in names:
        prefix = name.removesuffix(ENDING)
        if name.endswith(ENDING) and is_name(prefix):
            async with connected(log_consumer(place), place) as consumer:
                revision = await read_on(consumer, TopicPartition(name, 0), None)
            if revision is not None:
                revisions[prefix] = revision
    topics = {prefix: Topics(replace(place, prefix=prefix)).labels.name for prefix in revisions}
    found = await extents(place, topics.values())
    return [
        Listed(
            prefix,
            revision,
            sum(end - begin for tp, (begin, end) in found.items() if tp.topic == topics[prefix]),
        )
        for prefix, revision in revisions.items()
    ]
