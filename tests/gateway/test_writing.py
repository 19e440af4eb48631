"""`POST /labels` and `POST /tasks`: checked as the pipeline does, all or nothing, acknowledged."""

import asyncio
from uuid import uuid4

import pytest
from orjson import dumps

from sbic.local.broker import EmbeddedBroker
from sbic.project.topics import Topics
from sbic.wire.partitions import partition_of
from tests.agents.kafka import ProjectOnBroker
from tests.gateway.client import GatewayClient, new_project, running_gateway

JSON, LINES = "application/json", "application/x-ndjson"


def label(task: str, worker: str, said: object = 1) -> dict[str, object]:
    return {"task": task, "worker": worker, "label": said}


async def test_labels_are_where_the_answer_says_and_count(gateway: GatewayClient) -> None:
    """One, an array and lines; each keyed by its worker, and in the partition of that key."""
    settings = gateway.projects[0]
    task = f"t-{uuid4().hex}"
    labels = [label(task, f"w{number}") for number in range(7)]
    places = (await gateway.post("/labels", labels[0])).json["labels"]
    places += (await gateway.post("/labels", labels[1:5])).json["labels"]
    lines = b"\n".join(map(dumps, labels[5:])) + b"\n"
    places += (await gateway.post_bytes("/labels", lines, LINES)).json["labels"]
    here = {
        (record.partition, record.offset): record
        for record in await ProjectOnBroker(settings).read(Topics(settings).labels.name)
    }
    for sent, place in zip(labels, places, strict=True):
        record = here[place["partition"], place["offset"]]
        worker = str(sent["worker"]).encode()
        assert (record.key, record.value) == (worker, dumps(sent))
        assert record.partition == partition_of(worker, settings.partitions)
    counted = await gateway.until(
        f"/tasks/{task}",
        lambda answer: (
            answer.status == 200
            and answer.json["labels"] == 7
            and len(answer.json["answers"] or ()) == 7
        ),
    )
    assert counted.json["prediction"] == 1
    assert {answer["worker"] for answer in counted.json["answers"]} == {f"w{n}" for n in range(7)}


async def test_one_bad_label_and_none_is_sent(gateway: GatewayClient) -> None:
    task = f"t-{uuid4().hex}"
    bad = [label(task, "ann"), label(task, "bob", 2), {"task": task}, 7, label("", "ann")]
    answer = await gateway.post("/labels", bad)
    assert answer.status == 422
    assert answer.json["problems"] == [
        {"index": 1, "reason": "'label' must be 1, -1, 0 or null, not 2"},
        {"index": 2, "reason": "the field 'worker' is missing"},
        {"index": 3, "reason": "the value must be a JSON object, not a whole number"},
        {"index": 4, "reason": "'task' is empty"},
    ]
    assert "4 of 5" in answer.json["error"]
    settings = gateway.projects[0]
    records = await ProjectOnBroker(settings).read(Topics(settings).labels.name)
    assert not [record for record in records if task.encode() in record.value]


async def test_an_unknown_class_is_named(gateway: GatewayClient) -> None:
    pets = gateway.projects[1].prefix
    answer = await gateway.post(f"/labels?project={pets}", label("t1", "ann", "fish"))
    assert answer.status == 422
    needs = "'label' must be one of 'cat', 'dog', 'bird', 0 or null, not 'fish'"
    assert answer.json["problems"] == [{"index": 0, "reason": needs}]


@pytest.mark.parametrize(
    ("body", "kind", "status"),
    [
        (b"{", JSON, 422),
        (b"[{", JSON, 400),
        (b"", JSON, 422),
        (b"[]", JSON, 200),
        (b"", LINES, 200),
        (b"[" * 5000, JSON, 400),
        (b'[{"task":"t","worker":"w","label":1,"x":' + b"[" * 300 + b"]" * 300 + b"}]", JSON, 422),
        (b"[" + b"0," * 50_000 + b"0]", JSON, 413),
        (b" " * (1 << 20) + b"{}", JSON, 413),
        (b'{"task":"t","worker":"w","label":1}', "text/plain", 415),
        (b"task=t", "application/x-www-form-urlencoded", 415),
        (b'{"task":"\xff","worker":"w","label":1}', JSON, 422),
    ],
    ids=[
        *("cut", "cut-array", "empty", "empty-array", "no-lines", "deep", "deep-field"),
        *("many", "large", "text", "form", "not-utf-8"),
    ],
)
async def test_a_hostile_body_is_refused_in_one_line(
    gateway: GatewayClient, body: bytes, kind: str, status: int
) -> None:
    answer = await gateway.post_bytes("/labels", body, kind)
    assert answer.status == status, answer.json
    assert status == 200 or len(answer.json["error"].splitlines()) == 1


async def test_a_compressed_body_is_not_unpacked(gateway: GatewayClient) -> None:
    headers = {"Content-Type": JSON, "Content-Encoding": "gzip"}
    answer = await gateway.ask("POST", "/labels", b"\x1f\x8b", headers)
    assert answer.status == 415


async def test_thirty_thousand_labels_of_one_megabyte_are_taken(broker: EmbeddedBroker) -> None:
    settings = await new_project(broker)
    labels = b",".join(b'{"task":"%d","worker":"%d","label":1}' % (n, n % 99) for n in range(25000))
    async with running_gateway([settings]) as client:
        await client.until_ready()
        answer = await client.post_bytes("/labels", b"[%b]" % labels, JSON)
    assert answer.status == 200, answer.json
    places = {(place["partition"], place["offset"]) for place in answer.json["labels"]}
    assert len(places) == 25000


async def test_tasks_are_registered_and_bad_ones_refused(gateway: GatewayClient) -> None:
    task = f"t-{uuid4().hex}"
    answer = await gateway.post("/tasks", [{"task": task, "prior": 0.25}])
    assert [set(place) for place in answer.json["tasks"]] == [{"partition", "offset"}]
    found = await gateway.until(f"/tasks/{task}", lambda answer: answer.status == 200)
    assert (found.json["prior"], found.json["labels"]) == (0.25, 0)
    refused = await gateway.post("/tasks", {"task": task, "prior": 3})
    assert refused.status == 422
    assert "'prior' must be a number between 0 and 1" in refused.json["error"]


# `POST /next`: assignments of the pipeline, for several requests of a worker at once.


async def register(gateway: GatewayClient, count: int) -> None:
    tasks = [f"next-{uuid4().hex}" for _ in range(count)]
    await gateway.post("/tasks", [{"task": task} for task in tasks])
    for task in tasks:
        await gateway.until(f"/tasks/{task}", lambda answer: answer.status == 200)


async def test_requests_of_one_worker_at_once_get_different_tasks(gateway: GatewayClient) -> None:
    await register(gateway, 12)
    worker = f"w-{uuid4().hex}"
    asked = [{"worker": worker}] * 6 + [{"worker": worker, "count": 3}] * 2
    answers = await asyncio.gather(*(gateway.post("/next", each) for each in asked))
    assert [answer.status for answer in answers] == [200] * 8
    assert [len(answer.json["assignments"]) for answer in answers] == [1] * 6 + [3] * 2
    given = [each for answer in answers for each in answer.json["assignments"]]
    assert len({each["task"] for each in given}) == 12
    assert {each["worker"] for each in given} == {worker}
    assert {answer.json["reason"] for answer in answers} == {None}


async def test_who_has_every_task_is_told_why_there_is_none(gateway: GatewayClient) -> None:
    worker = f"w-{uuid4().hex}"
    await register(gateway, 1)
    reason = None
    for _ in range(20):
        answer = await gateway.post("/next", {"worker": worker, "count": 100})
        assert answer.status == 200
        reason = answer.json["reason"]
        if reason:
            break
    assert reason == "all-answered"


async def test_an_owner_blocks_and_unblocks_a_worker(gateway: GatewayClient) -> None:
    await register(gateway, 1)
    worker = f"w-{uuid4().hex}"
    await gateway.post("/labels", {"task": f"t-{worker}", "worker": worker, "label": 1})

    async def until_told(**said: object) -> None:
        sent = await gateway.post("/workers", [{"worker": worker, **said}])
        assert [set(place) for place in sent.json["workers"]] == [{"partition", "offset"}]
        await gateway.until(
            f"/workers/{worker}",
            lambda answer: (
                answer.status == 200
                and {name: answer.json.get(name) for name in ("blocked", "name")}
                == {"blocked": None, "name": None, **said}
            ),
        )

    await until_told(blocked=True, name="Ann")
    asked = await gateway.post("/next", {"worker": worker})
    assert (asked.json["assignments"], asked.json["reason"]) == ([], "worker-blocked")
    await until_told(blocked=False)
    asked = await gateway.post("/next", {"worker": worker})
    assert len(asked.json["assignments"]) == 1
    await until_told(blocked=None)
    refused = await gateway.post("/workers", {"worker": worker, "blocked": "yes"})
    assert refused.status == 422
    assert "'blocked' must be true, false or null" in refused.json["error"]


async def test_a_bad_request_is_told_what_is_wrong(gateway: GatewayClient) -> None:
    answer = await gateway.post("/next", {"worker": "ann", "count": 0})
    assert answer.status == 422
    assert "'count' must be a whole number from 1 to 100, not 0" in answer.json["error"]


async def test_without_an_instance_nothing_is_asked(broker: EmbeddedBroker) -> None:
    settings = await new_project(broker)
    async with running_gateway([settings]) as client:
        await client.until_ready()
        answer = await client.post("/next", {"worker": "ann"})
    assert answer.status == 503
    assert "sbic run --prefix" in answer.json["error"]
    assert answer.headers["Retry-After"] == "2"
