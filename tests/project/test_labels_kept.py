"""Labels are kept: whatever removes them is warned of, in the log, the status and the metrics."""

import asyncio

from aiokafka import TopicPartition
from aiokafka.admin import RecordsToDelete
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from orjson import loads

from sbic.kafka.admin import alter_topics, connected_admin, topic_overrides
from sbic.local.broker import EmbeddedBroker
from sbic.project.topics import Topics
from sbic.wire.partitions import partition_of
from tests.instances import instance
from tests.projects import new_project, sbic


async def test_retention_set_on_the_labels_and_labels_that_expire_are_warned_of_everywhere(
    broker: EmbeddedBroker,
) -> None:
    here = new_project(broker)
    name = Topics(here).labels.name
    part = TopicPartition(name, partition_of(b"ann", here.partitions))

    def status() -> tuple[list[str], str]:
        as_json, screen = sbic(here, "status", "--json"), sbic(here, "status")
        assert as_json.returncode == 0, as_json.stderr
        return loads(as_json.stdout)["warnings"], screen.stdout

    with instance(broker.url, here.prefix, SBIC_PARTITIONS=str(here.partitions)) as running:
        await asyncio.to_thread(running.wait_ready)
        labels = "task,worker,label\n" + "".join(f"t{task},ann,1\n" for task in range(50))
        sent = sbic(here, "replay", "-", "--wait", stdin=labels)
        assert sent.returncode == 0, sent.stderr
        assert status()[0] == []
        assert running.metrics()["sbic_labels_retention_wrong"] == 0
        async with connected_admin(here) as admin:
            hour = {**await topic_overrides(admin, name), "retention.ms": "3600000"}
            await admin.alter_configs([ConfigResource(ConfigResourceType.TOPIC, name, hour)])
            await admin.delete_records({part: RecordsToDelete(20)})
        await asyncio.to_thread(running.metrics_with, "sbic_labels_retention_wrong", 1)
        await asyncio.to_thread(running.metrics_with, "sbic_expired_labels", 20)
        wrong = f"{name} has retention.ms=3600000 and needs -1"
        expired = f"20 labels have expired from {name}: a recount cannot count them again"
        assert wrong in running.log()
        assert expired in running.log()
        warnings, screen = status()
        assert warnings[0].startswith(wrong)
        assert warnings[1] == expired
        assert "20 labels have expired from" in " ".join(screen.split())
        assert running.terminate() == 0
    with instance(broker.url, here.prefix) as again:  # it says so at start, too, and runs
        await asyncio.to_thread(again.wait_ready)
        assert expired in again.log()
        assert wrong in again.log()
        more = sbic(here, "replay", "-", "--wait", stdin="task,worker,label\nmore,ann,1\n")
        assert more.returncode == 0, more.stderr + again.log()
        await alter_topics(here)
        assert again.terminate() == 0
    with instance(broker.url, here.prefix) as last:
        await asyncio.to_thread(last.wait_ready)
        assert expired in last.log()
        assert wrong not in last.log()
