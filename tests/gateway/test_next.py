"""`POST /next`: assignments of the pipeline, for several requests of a worker at once."""

import asyncio
from uuid import uuid4

from sbic.local.broker import EmbeddedBroker
from tests.gateway.client import GatewayClient, running_gateway
from tests.gateway.projects import new_project


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
