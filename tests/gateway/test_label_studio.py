"""`POST /hooks/label-studio`: an annotation is on the topic before the response is sent."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any
from uuid import uuid4

import pytest
import pytest_asyncio
from orjson import dumps

from sbic.local.broker import EmbeddedBroker
from sbic.project.settings import Settings
from sbic.status.contents import standing_labels
from tests.agents.kafka import until
from tests.gateway.client import GatewayClient, HttpAnswer, new_project, running_gateway
from tests.label_studio.payloads import annotation, deletion, skipped, webhook

HOOK = "/hooks/label-studio"


@pytest_asyncio.fixture(scope="module")
async def hooked(broker: EmbeddedBroker) -> AsyncIterator[GatewayClient]:
    """A gateway with two projects, one with the first answers and one with the last."""
    projects = [await new_project(broker, classes="cat,dog", repeats=r) for r in ("first", "last")]
    async with running_gateway(projects) as client:
        await client.until_ready()
        yield client


class Hook:
    """The webhook of one project; ids are new in each test."""

    def __init__(self, client: GatewayClient, settings: Settings) -> None:
        self.client = client
        self.settings = settings
        self.task = uuid4().hex
        self.id = uuid4().int % (1 << 40)

    async def post(self, payload: object, parameters: str = "") -> HttpAnswer:
        path = f"{HOOK}?project={self.settings.prefix}{parameters}"
        return await self.client.post(path, payload)

    async def say(self, payload: object) -> Any:
        answer = await self.post(payload)
        assert answer.status == 200, answer
        return answer.json

    def given(self, number: int, *choices: str, **fields: Any) -> dict[str, Any]:
        return annotation(self.id + number, *choices, task=self.task, **fields)

    async def stands(self) -> dict[str, int | str]:
        labels = await standing_labels(self.settings)
        return {worker: label for task, worker, label in labels if task == self.task}


@pytest.fixture(params=["first", "last"])
def hook(request: pytest.FixtureRequest, hooked: GatewayClient) -> Hook:
    return Hook(hooked, hooked.projects[["first", "last"].index(request.param)])


async def test_created_updated_and_deleted_annotations_stand_as_label_studio_has_them(
    hook: Hook,
) -> None:
    said = await hook.say(webhook("ANNOTATION_CREATED", hook.given(0, "cat")))
    assert set(said["labels"][0]) == {"partition", "offset"}
    both = [hook.given(1, "dog", worker=2), hook.given(2, "dog", worker=3)]
    assert len((await hook.say(webhook("ANNOTATIONS_CREATED", both)))["labels"]) == 2
    assert await hook.stands() == {"1": "cat", "2": "dog", "3": "dog"}

    await hook.say(webhook("ANNOTATION_UPDATED", hook.given(0, "dog", second=60)))
    away = skipped(hook.id + 1, task=hook.task, worker=2, second=60)
    await hook.say(webhook("ANNOTATION_UPDATED", away))
    assert await hook.stands() == {"1": "dog", "3": "dog"}

    said = await hook.say(deletion(hook.id, hook.id + 1, hook.id + 2, 7))
    assert said["unknown"] == [7]
    assert await hook.stands() == {}
    assert (await hook.say(deletion(hook.id)))["labels"] == []


async def test_of_two_annotations_of_one_worker_the_other_stands_when_one_is_deleted(
    hook: Hook,
) -> None:
    for number, choice in enumerate(["cat", "dog", "cat"]):
        given = hook.given(number, choice, second=number)
        await hook.say(webhook("ANNOTATION_CREATED", given))
    is_first = hook.settings.repeats == "first"
    await hook.say(deletion(hook.id if is_first else hook.id + 2))
    assert await hook.stands() == {"1": "dog"}
    await hook.say(deletion(hook.id + 1, hook.id, hook.id + 2))
    assert await hook.stands() == {}


async def test_a_posted_annotation_counts_though_the_client_does_not_wait_for_the_answer(
    hook: Hook,
) -> None:
    """Label Studio waits for a second only."""
    await hook.say(webhook("ANNOTATION_CREATED", hook.given(0, "cat")))
    port = int(hook.client.url.rpartition(":")[2])
    _, writer = await asyncio.open_connection("127.0.0.1", port)
    body = dumps(deletion(hook.id))
    head = (
        f"POST {HOOK}?project={hook.settings.prefix} HTTP/1.1\r\nHost: 127.0.0.1\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    writer.write(head.encode() + body)
    await writer.drain()
    writer.close()

    async def is_taken_back() -> bool:
        return await hook.stands() == {}

    await until(is_taken_back)


async def test_other_actions_are_accepted_and_ignored(hook: Hook) -> None:
    assert await hook.say({"action": "TASKS_CREATED", "tasks": [{"id": 1}]}) == {"labels": []}


async def test_the_parameters_say_what_choices_mean(hook: Hook) -> None:
    payload = webhook("ANNOTATION_CREATED", hook.given(0, "Katze"))
    assert (await hook.post(payload, "&control=pet&map=Katze:cat,Hund:dog")).status == 200
    assert await hook.stands() == {"1": "cat"}
    refused = await hook.post(payload, "&map=Katze:lion")
    assert (refused.status, "'lion' is not one of" in refused.json["error"]) == (422, True)


@pytest.mark.parametrize(
    ("payload", "status", "error"),
    [
        ({"action": "ANNOTATION_CREATED"}, 422, "switch on 'Send payload' in the webhook"),
        ([], 422, "must be a JSON object with an 'action'"),
    ],
    ids=["no payload", "no object"],
)
async def test_what_cannot_be_a_label_is_refused(
    hook: Hook, payload: object, status: int, error: str
) -> None:
    answer = await hook.post(payload)
    assert (answer.status, error in answer.json["error"]) == (status, True)
    assert (await hook.client.post_bytes(HOOK, b"{", "application/json")).status == 400


async def test_a_label_from_label_studio_is_counted_and_taken_back(gateway: GatewayClient) -> None:
    """Through the whole pipeline."""
    hook = Hook(gateway, gateway.projects[0])
    await hook.say(webhook("ANNOTATION_CREATED", hook.given(0, "1")))
    path = f"/tasks/{hook.task}?project={hook.settings.prefix}"
    counted = await gateway.until(path, lambda answer: answer.status == 200)
    assert (counted.json["prediction"], counted.json["labels"]) == (1, 1)
    await hook.say(deletion(hook.id))
    await gateway.until(path, lambda answer: answer.json["labels"] == 0)


async def test_an_annotation_that_is_no_label_becomes_a_dead_letter(gateway: GatewayClient) -> None:
    """The others of the same webhook count."""
    hook = Hook(gateway, gateway.projects[1])
    status = f"/status?project={hook.settings.prefix}"
    before = (await gateway.get(status)).json["dead_letters"]["by_reason"].get("bad-label", 0)
    both = hook.given(1, "cat", worker=2)
    both["result"][0]["value"]["choices"].append("dog")
    given = [hook.given(0, "fish"), both, hook.given(2, "bird", worker=3)]
    said = await hook.say(webhook("ANNOTATIONS_CREATED", given))
    assert len(said["labels"]) == 1
    assert [each["id"] for each in said["unusable"]] == [hook.id, hook.id + 1]
    assert "'fish' is not one of" in said["unusable"][0]["reason"]
    assert "2 choices at once" in said["unusable"][1]["reason"]
    await gateway.until(
        status,
        lambda answer: answer.json["dead_letters"]["by_reason"].get("bad-label", 0) == before + 2,
    )
    assert await hook.stands() == {"3": "bird"}
    await hook.say(webhook("ANNOTATION_UPDATED", hook.given(0, "dog", second=60)))
    assert await hook.stands() == {"1": "dog", "3": "bird"}
