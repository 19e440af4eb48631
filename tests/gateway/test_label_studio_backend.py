"""`/label-studio/PREFIX`: the protocol of a machine learning backend of Label Studio."""

from base64 import b64encode
from typing import Any
from uuid import uuid4

import pytest
from yarl import URL

from sbic.local.broker import EmbeddedBroker
from tests.gateway.client import GatewayClient, HttpAnswer, new_project, running_gateway
from tests.label_studio.payloads import annotation, webhook

CONFIG = (
    '<View><Image name="image" value="$image"/><Choices name="pet" toName="image">'
    '<Choice value="Katze" alias="cat"/><Choice value="dog"/><Choice value="bird"/>'
    '<Choice value="no idea"/></Choices></View>'
)
YES_NO = (
    '<View><Text name="text" value="$text"/><Choices name="other" toName="text">'
    '<Choice value="x"/></Choices><Choices name="right" toName="text">'
    '<Choice value="Yes"/><Choice value="No"/><Choice value="Not sure"/></Choices></View>'
)


class Backend:
    """What Label Studio sends to one project."""

    def __init__(self, client: GatewayClient, number: int, choices: str = "") -> None:
        self.client = client
        self.prefix = client.projects[number].prefix
        self.base = f"/label-studio/{self.prefix}{choices}"

    async def setup(self, config: object) -> HttpAnswer:
        body = {"project": "1.0", "schema": config, "hostname": "", "access_token": "secret"}
        return await self.client.post(f"{self.base}/setup", body | {"extra_params": None})

    async def predict(self, config: str, *tasks: object) -> list[Any]:
        params = {"login": None, "password": None, "context": None}
        given = [{"id": task, "data": {"text": "x"}, "annotations": []} for task in tasks]
        body = {"tasks": given, "project": "1.0", "label_config": config, "params": params}
        answer = await self.client.post(f"{self.base}/predict", body)
        assert answer.status == 200, answer
        assert answer.json["model_version"] == self.prefix
        assert {each["model_version"] for each in answer.json["results"]} <= {self.prefix}
        return [(each["result"], each["score"]) for each in answer.json["results"]]


async def test_a_task_gets_the_choice_and_the_confidence_of_its_posterior(
    gateway: GatewayClient,
) -> None:
    pets = Backend(gateway, 1)
    assert (await gateway.get(f"{pets.base}/health")).json == {"status": "UP"}
    assert (await pets.setup(CONFIG)).json == {"model_version": pets.prefix}
    known, unknown = uuid4().int % (1 << 40), uuid4().int % (1 << 40)
    given = [annotation(known + n, "cat", task=known, worker=f"w{n}{known}") for n in range(3)]
    said = await gateway.post(f"{pets.base}/webhook", webhook("ANNOTATIONS_CREATED", given))
    assert len(said.json["labels"]) == 3
    task = f"/tasks/{known}?project={pets.prefix}"
    counted = await gateway.until(
        task, lambda answer: answer.status == 200 and answer.json["labels"] == 3
    )
    (ours, score), chance = await pets.predict(CONFIG, known, unknown)
    assert ours == [
        {
            "from_name": "pet",
            "to_name": "image",
            "type": "choices",
            "value": {"choices": ["cat"]},
        }
    ]
    assert score == pytest.approx(counted.json["probabilities"]["cat"], abs=1e-6)
    assert score > 0.5
    assert chance == ([], 0.333333)


async def test_the_address_says_what_choices_mean(gateway: GatewayClient) -> None:
    signs = Backend(gateway, 0, "/control=right&map=Yes:1,No:-1,Not%20sure:0")
    assert (await signs.setup(YES_NO)).status == 200
    task = uuid4().int % (1 << 40)
    given = annotation(task, "No", task=task, worker=f"w{task}")
    given["result"][0]["from_name"] = "right"
    await gateway.post(f"{signs.base}/webhook", webhook("ANNOTATION_CREATED", given))
    path = f"/tasks/{task}?project={signs.prefix}"
    await gateway.until(path, lambda answer: answer.status == 200)
    (((ours,), _),) = await signs.predict(YES_NO, task)
    assert (ours["from_name"], ours["value"]) == ("right", {"choices": ["No"]})


@pytest.mark.parametrize(
    ("config", "reason"),
    [
        (YES_NO, "the labeling configuration has several Choices ('other', 'right'): name one"),
        ("<View/>", "the labeling configuration has no Choices"),
        (CONFIG.replace("dog", "dogs"), "no choice stands for the class 'dog': map one to it"),
        ("<View>", "the labeling configuration is not XML"),
        ('<!DOCTYPE x [<!ENTITY a "b">]><x>&a;</x>', "is not one of Label Studio"),
        (7, "is not one of Label Studio"),
        (CONFIG.replace('toName="image"', ""), "have no name or no toName"),
    ],
)
async def test_the_status_line_says_what_does_not_fit(
    gateway: GatewayClient, config: object, reason: str
) -> None:
    """Label Studio shows its users nothing else."""
    pets = Backend(gateway, 1)
    url, body = URL(f"{gateway.url}{pets.base}/setup"), {"schema": config}
    async with gateway.http.post(url, json=body) as answer:
        assert (answer.status, reason in (answer.reason or "")) == (422, True), answer.reason
    assert reason in (await pets.setup(config)).json["error"]


async def test_other_projects_and_other_bodies_are_refused(gateway: GatewayClient) -> None:
    assert (await gateway.get("/label-studio/none/health")).status == 404
    base = Backend(gateway, 1).base
    assert (await gateway.post(f"{base}/predict", [])).status == 422
    assert (await gateway.post(f"{base}/predict", {"label_config": CONFIG})).status == 422
    body = {"label_config": CONFIG, "tasks": [1]}
    assert (await gateway.post(f"{base}/predict", body)).status == 422
    assert (await gateway.post_bytes(f"{base}/setup", b"{", "application/json")).status == 400
    assert (await gateway.post_bytes(f"{base}/setup", b"{}", "text/plain")).status == 415
    training = {"action": "START_TRAINING", "project": {"id": 1}}
    assert (await gateway.post(f"{base}/webhook", training)).json == {"labels": []}


async def test_all_tasks_of_a_large_project_may_come_at_once(gateway: GatewayClient) -> None:
    pets = Backend(gateway, 1)
    tasks = [{"id": n, "data": {"text": "x" * 500}} for n in range(5000)]
    body = {"tasks": tasks, "label_config": CONFIG}
    answer = await gateway.post(f"{pets.base}/predict", body)
    assert len(answer.json["results"]) == 5000
    huge = b'{"tasks": "%b"}' % (b"x" * (33 << 20))
    answer = await gateway.post_bytes(f"{pets.base}/predict", huge, "application/json")
    assert (answer.status, "32 MB" in answer.json["error"]) == (413, True)
    answer = await gateway.post_bytes(f"{pets.base}/setup", huge[: 2 << 20], "application/json")
    assert (answer.status, "1 MB" in answer.json["error"]) == (413, True)


async def test_a_user_of_label_studio_is_named_in_the_roster_unless_somebody_has_named_them(
    gateway: GatewayClient,
) -> None:
    pets = Backend(gateway, 1)
    ann, bob = (uuid4().int % (1 << 40) for _ in range(2))
    entry = {"worker": str(bob), "name": "Bob of the zoo", "blocked": True}
    await gateway.post(f"/workers?project={pets.prefix}", entry)
    given = [annotation(user, "cat", task=user, worker=user) for user in (ann, bob)]
    await gateway.post(f"{pets.base}/webhook", webhook("ANNOTATIONS_CREATED", given))
    names = [
        {"completed_by": user, "created_username": f"A Name {user}@example.org, {user}"}
        for user in (ann, bob)
    ]
    body = {"label_config": CONFIG, "tasks": [{"id": ann, "annotations": [*names, 7, {}]}]}
    assert (await gateway.post(f"{pets.base}/predict", body)).status == 200

    async def named(user: int, name: str) -> Any:
        path = f"/workers/{user}?project={pets.prefix}"
        return await gateway.until(
            path, lambda answer: answer.status == 200 and answer.json.get("name") == name
        )

    await named(ann, f"{ann}@example.org")
    assert (await named(bob, "Bob of the zoo")).json["blocked"] is True


async def test_the_token_may_be_a_password_for_label_studio_only(broker: EmbeddedBroker) -> None:
    signs = await new_project(broker)
    token = "a-token-for-label-studio"
    async with running_gateway([signs], tokens=(token,)) as client:
        good, bad = (
            {"Authorization": f"Basic {b64encode(f'sbic:{word}'.encode()).decode()}"}
            for word in (token, "x" * 20)
        )
        path = f"/label-studio/{signs.prefix}/health"
        await client.until("/readyz", lambda answer: answer.status == 200)
        assert (await client.get(path, **good)).status == 200
        assert (await client.get(path, **bad)).status == 401
        assert (await client.get(path, Authorization="Basic ?")).status == 401
        assert (await client.get(path)).status == 401
        assert (await client.get(path, Authorization=f"Bearer {token}")).status == 200
        assert (await client.get("/status", **good)).status == 401
