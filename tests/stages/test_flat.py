"""With `SBIC_FLAT=true` every posterior is published as a flat record, too, in the same step."""

from typing import Any

import pytest
from orjson import loads

from sbic.classes import SIGNS, Classes
from sbic.engine import AlgorithmName
from sbic.instance.publication import Outbox
from sbic.wire.flat import flat_encoder
from sbic.wire.partitions import partition_of
from sbic.wire.tasks import Description
from sbic.wire.traces import TRACEPARENT
from tests.stages.simulated.log import Log
from tests.stages.simulated.one_instance import OneInstance
from tests.stages.simulated.project import SimulatedProject

PETS = Classes(("cat", "dog", "bird"))
STARS = Classes.of_scale("1..3")
FLAT = SimulatedProject(is_flat=True)
TRACE = b"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


def flat_project(algorithm: AlgorithmName, classes: Classes) -> OneInstance:
    return OneInstance(Log(3), SimulatedProject(algorithm, classes, is_flat=True))


def payloads(instance: OneInstance) -> dict[str, dict[str, Any]]:
    """The last flat record of each task, without its schema."""
    found = {}
    for partition, records in enumerate(instance.log["flat"]):
        for record in records:
            payload = loads(record.value or b"")["payload"]
            assert record.key == payload["task"].encode()
            assert partition == partition_of(record.key, 3)
            found[payload["task"]] = payload
    return found


def test_classes_without_names_are_text_and_a_tie_is_null() -> None:
    instance = flat_project("fast-sbic", SIGNS)
    instance.label("t1", "ann", -1)
    instance.describe(Description(task="t2", gold=1, status="closed"))
    instance.describe(Description(task="t3", prior=0.5))
    instance.describe(Description(task="t4", status="closed"))
    found, posterior = payloads(instance), instance.results()["t1"]
    assert found["t1"] == {
        "task": "t1",
        "prediction": "-1",
        "confidence": 1 - posterior["probability"],
        "labels": 1,
        "effective_votes": None,
        "status": "open",
        "reason": None,
        "gold": False,
        "closed": False,
        "updated_at": posterior["updated_at"],
    }
    assert (found["t2"]["prediction"], found["t2"]["confidence"]) == ("1", 1.0)
    assert (found["t2"]["gold"], found["t2"]["closed"], found["t2"]["labels"]) == (True, True, 0)
    assert (found["t3"]["prediction"], found["t3"]["confidence"]) == (None, 0.5)
    assert (found["t4"]["status"], found["t4"]["reason"]) == ("closed", "request")


def test_names_and_grades_have_their_confidence_and_grades_their_rating() -> None:
    pets, stars = flat_project("settled", PETS), flat_project("settled", STARS)
    pets.label("t1", "ann", "dog")
    stars.label("t1", "ann", 3)
    pet, star = payloads(pets)["t1"], payloads(stars)["t1"]
    posterior = pets.results()["t1"]
    assert (pet["prediction"], pet["confidence"]) == ("dog", posterior["confidence"])
    assert pet["effective_votes"] == posterior["effective_votes"]
    assert "mean" not in pet
    posterior = stars.results()["t1"]
    assert (star["prediction"], star["median"]) == ("3", str(posterior["median"]))
    assert [star["interval_low"], star["interval_high"]] == list(map(str, posterior["interval"]))
    assert star["mean"] == posterior["mean"]


KINDS = {"string": str, "double": float, "int64": int, "boolean": bool}


@pytest.mark.parametrize("classes", [SIGNS, PETS, STARS], ids=["signs", "names", "grades"])
def test_the_schema_in_a_record_names_the_fields_of_its_payload_with_their_types(
    classes: Classes,
) -> None:
    instance = flat_project("settled", classes)
    instance.label("t1", "ann", classes.labels[0])
    instance.describe(Description(task="t2", status="closed"))
    records = [record for records in instance.log["flat"] for record in records]
    assert len(records) >= 2
    for record in records:
        content = loads(record.value or b"")
        payload, fields = content["payload"], content["schema"]["fields"]
        assert [field["field"] for field in fields] == list(payload)
        for field in fields:
            value = payload[field["field"]]
            assert type(value) is KINDS[field["type"]] or (value is None and field["optional"])


def test_a_time_beyond_those_of_databases_is_null() -> None:
    encode = flat_encoder(SIGNS)
    start = b'{"task":"t1","probability":0.5,"prediction":0,"labels":0,"status":"open"'
    for updated_at, expected in ((0, 0), (253402300799999, 253402300799999), (1 << 60, None)):
        value = encode(b'%b,"updated_at":%d}' % (start, updated_at))
        assert loads(value)["payload"]["updated_at"] == expected


def publication_of(instance: OneInstance, *labels: tuple[str, str, int]) -> Outbox:
    """What is published with and after the changelog of these labels."""
    group, _ = instance.instance.filling, instance.instance.begin_group()
    for task, worker, label in labels:
        partition = instance.log.produce(task, worker, label)
        [record] = instance.log["labels"][partition][-1:]
        record.headers = [(TRACEPARENT, TRACE)]
        instance.instance.filling = group
        instance.instance.take({partition: [record]})
    publication = instance.instance.publication(group)
    assert not any(topic in ("posteriors", "flat") for topic, _ in publication.changelog)
    return publication.outputs


def test_flat_records_are_in_the_step_of_the_posteriors_with_their_keys_and_traces() -> None:
    instance = OneInstance(Log(3), FLAT)
    outputs = publication_of(instance, ("t1", "ann", 1), ("t2", "ann", 1), ("t1", "bob", -1))
    encode = flat_encoder(SIGNS)
    posteriors = {home: rows for (topic, home), rows in outputs.items() if topic == "posteriors"}
    flat = {home: rows for (topic, home), rows in outputs.items() if topic == "flat"}
    assert sum(map(len, flat.values())) == 2
    assert flat == {
        home: [row._replace(value=encode(row.value or b"")) for row in rows]
        for home, rows in posteriors.items()
    }
    assert all((TRACEPARENT, TRACE) in row.headers for rows in flat.values() for row in rows)


def test_what_was_not_published_in_time_is_published_after_the_recovery() -> None:
    instance = OneInstance(Log(3), FLAT)
    outputs = publication_of(instance, ("t1", "ann", 1))
    only = Outbox({place: rows for place, rows in outputs.items() if place[0] == "flat"})
    assert len(only) == 1
    dropped = instance.instance.dropped(only)
    assert (dropped.posteriors, dropped.is_stale) == (0, False)
    assert payloads(instance) == {}
    instance.tasks_ready(generation=2)
    assert payloads(instance)["t1"]["labels"] == 1


def test_without_the_setting_there_is_no_flat_record() -> None:
    instance = OneInstance(Log(3))
    instance.label("t1", "ann", 1)
    assert instance.results()
    assert not any(instance.log["flat"])
