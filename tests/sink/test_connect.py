"""The flat topic: its records as Kafka Connect reads them, and when there is such a topic."""

import asyncio
import re

import pytest
from orjson import loads

from sbic.classes import SIGNS, Classes
from sbic.kafka.admin import connected_admin
from sbic.local.broker import EmbeddedBroker
from sbic.project.settings import Settings
from sbic.project.topics import Topics
from sbic.wire.flat import FIELDS, RATING, flat_encoder
from sbic.wire.tasks import Description
from tests.agents.kafka import ProjectOnBroker, project
from tests.docs.documents import document
from tests.instances import instance
from tests.projects import sbic
from tests.sink import converter
from tests.stages.simulated.log import Log
from tests.stages.simulated.one_instance import OneInstance
from tests.stages.simulated.project import SimulatedProject

STRING, DOUBLE, LONG, FLAG = "STRING", "FLOAT64", "INT64", "BOOLEAN"
TIMESTAMP = "org.apache.kafka.connect.data.Timestamp"
STARS = Classes.of_scale("1..3")
PAGE = document("docs/connect.md")
ROW = re.compile(r"^\| `(\w+)` \| ([^|]+) \|", re.MULTILINE)


@pytest.mark.broker  # that is, it starts Java
@pytest.mark.skipif(bool(converter.why_not()), reason=converter.why_not())
def test_the_converter_of_kafka_connect_reads_every_field_with_its_type() -> None:
    signs = OneInstance(Log(1), SimulatedProject(is_flat=True))
    signs.label("t1 \u00fc", "ann", -1)
    signs.describe(Description(task="t2", status="closed"))
    stars = OneInstance(Log(1), SimulatedProject("settled", STARS, is_flat=True))
    stars.label("t3", "ann", 3)
    records = [*signs.log["flat"][0], *stars.log["flat"][0]]
    found = converter.read((record.key or b"", record.value or b"") for record in records)
    last = {fields["key"].value: fields for fields in found}
    assert list(last) == ["t1 \u00fc", "t2", "t3"]
    posterior = signs.results()["t1 \u00fc"]
    first = last["t1 \u00fc"]
    assert first["confidence"].kind == DOUBLE
    assert float(first.pop("confidence").value) == 1 - posterior["probability"]
    assert first == {
        "key": (STRING, "t1 \u00fc"),
        "task": (STRING, "t1 \u00fc"),
        "prediction": (STRING, "-1"),
        "labels": (LONG, "1"),
        "effective_votes": (DOUBLE, "null"),
        "status": (STRING, "open"),
        "reason": (STRING, "null"),
        "gold": (FLAG, "false"),
        "closed": (FLAG, "false"),
        "updated_at": (TIMESTAMP, str(posterior["updated_at"])),
    }
    assert last["t2"]["reason"] == (STRING, "request")
    assert last["t2"]["closed"] == (FLAG, "true")
    rated = {name: last["t3"][name].kind for name in ("confidence", "effective_votes", "mean")}
    assert rated == dict.fromkeys(rated, DOUBLE)
    assert last["t3"]["median"].kind == last["t3"]["interval_low"].kind == STRING


def test_the_page_has_the_fields_and_a_connector_that_reads_them() -> None:
    connector, record = (loads(block.text) for block in PAGE.blocks("json"))
    assert connector["topics"] == Topics(Settings(flat=True)).flat.name
    assert connector["value.converter"] == "org.apache.kafka.connect.json.JsonConverter"
    assert connector["pk.fields"] == FIELDS[0]["field"]
    assert [name for name, _ in ROW.findall(PAGE.text)] == [field["field"] for field in FIELDS]
    optional = [kind.endswith("optional") for _, kind in ROW.findall(PAGE.text)]
    assert optional == [field["optional"] for field in FIELDS]
    assert record["schema"]["fields"] == FIELDS
    assert all(f"`{field['field']}`" in PAGE.text for field in RATING)


async def names_of(settings: Settings) -> set[str]:
    async with connected_admin(settings) as admin:
        return {name for name in await admin.list_topics() if name.startswith(settings.prefix)}


async def set_flat(here: ProjectOnBroker, value: str) -> None:
    arguments = "project", "set", f"flat={value}", "--recount"
    done = await asyncio.to_thread(sbic, here.settings, *arguments)
    assert done.returncode == 0, done.stderr
    assert "all counted" in done.stderr + done.stdout


async def test_the_topic_has_every_posterior_while_the_setting_is_on_and_is_gone_without_it(
    broker: EmbeddedBroker,
) -> None:
    here = await project(broker, partitions=2)
    flat, others = here.topics.flat.name, {topic.name for topic in here.topics}
    triples = [(f"t{i}", worker, 1) for i in range(20) for worker in ("ann", "bob")]
    await here.send(triples)
    with instance(broker.url, here.settings.prefix, SBIC_PARTITIONS="2") as running:
        running.wait_ready()
        await here.until_counted(len(triples))
        assert await names_of(here.settings) == others
        await set_flat(here, "true")
        await here.until_counted(len(triples))
        running.wait_ready()
        assert await names_of(here.settings) == {*others, flat}
        await here.send([("t0", "cas", -1)])
        await here.until_counted(len(triples) + 1)
        posteriors = {r.key: r for r in await here.read(here.topics.posteriors.name)}
        records = await here.until_read(
            flat, lambda found: any(loads(r.value)["payload"]["labels"] == 3 for r in found)
        )
        encode = flat_encoder(SIGNS)
        assert {r.key: (r.partition, r.value) for r in records} == {
            key: (r.partition, encode(r.value)) for key, r in posteriors.items()
        }
        await set_flat(here, "false")
        await here.until_counted(len(triples) + 1)
        assert await names_of(here.settings) == others
        assert running.terminate() == 0


async def test_a_new_project_has_the_topic_if_it_is_asked_for(broker: EmbeddedBroker) -> None:
    here = await project(broker, partitions=1)
    prefix = f"{here.settings.prefix}-flat"
    settings = Settings(broker=broker.url, prefix=prefix, flat=True, partitions=1)
    done = await asyncio.to_thread(sbic, settings, "topics", "--flat", "true", "--partitions", "1")
    assert done.returncode == 0, done.stderr
    assert await names_of(settings) == {topic.name for topic in Topics(settings)}
    assert Topics(settings).flat in list(Topics(settings))
    done = await asyncio.to_thread(sbic, settings, "project", "delete", "--yes")
    assert done.returncode == 0, done.stderr
    assert await names_of(settings) == set()
