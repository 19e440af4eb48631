"""A real Label Studio: its webhooks reach the gateway, and its annotations are labels."""

import asyncio
import shutil
from collections.abc import AsyncIterator
from pathlib import Path
from time import monotonic

import pytest_asyncio
from aiohttp import ClientSession
from orjson import dumps

from sbic.local.broker import EmbeddedBroker
from sbic.local.java import free_port
from sbic.project.settings import Settings
from sbic.status.contents import standing_labels
from tests.gateway.client import GatewayClient, new_project, running_gateway
from tests.instances import instance
from tests.label_studio.real import CONFIG, NEEDS_IT, RealLabelStudio, started
from tests.projects import sbic

pytestmark = NEEDS_IT


@pytest_asyncio.fixture(scope="module")
async def hooked(broker: EmbeddedBroker) -> AsyncIterator[GatewayClient]:
    """A gateway and an instance of a project with the classes cat and dog."""
    pets = await new_project(broker, classes="cat,dog")
    with instance(broker.url, pets.prefix) as one:
        await asyncio.to_thread(one.wait_ready)
        async with running_gateway([pets]) as client:
            await client.until_ready()
            yield client


async def until_stands(settings: Settings, expected: set[tuple[str, str, str]]) -> None:
    deadline = monotonic() + 60
    while (found := set(await standing_labels(settings))) != expected:
        assert monotonic() < deadline, found
        await asyncio.sleep(0.2)


async def test_annotations_of_several_users_become_labels_and_what_is_none_a_dead_letter(
    studio: RealLabelStudio, hooked: GatewayClient
) -> None:
    project = (await studio.make("projects/", {"title": "Pets", "label_config": CONFIG}))["id"]
    hook = {
        "project": project,
        "url": f"{hooked.url}/hooks/label-studio",
        "send_payload": True,
        "send_for_all_actions": True,
    }
    await studio.make("webhooks/", hook)  # on a private address
    users = [
        (await studio.make("users/", {"email": f"{name}@example.org", "username": name}))["id"]
        for name in ("ann", "bob", "cem")
    ]
    tasks = [
        (await studio.make("tasks/", {"project": project, "data": {"text": f"pet {number}"}}))["id"]
        for number in range(2)
    ]
    given = {
        (task, user): "cat" if (task + user) % 2 else "dog" for task in tasks for user in users
    }
    ids = {
        (task, user): await studio.annotate(task, user, choice)
        for (task, user), choice in given.items()
    }
    labels = {(str(task), str(user), choice) for (task, user), choice in given.items()}
    await until_stands(hooked.projects[0], labels)

    task, user = tasks[0], users[0]
    status, _ = await studio.ask("DELETE", f"annotations/{ids[task, user]}/")
    assert status == 204
    await until_stands(hooked.projects[0], labels - {(str(task), str(user), given[task, user])})

    await studio.annotate(task, user, "fish")
    await studio.annotate(task, user, "cat", "dog")
    counted = await hooked.until(
        "/status", lambda answer: answer.json["dead_letters"]["by_reason"].get("bad-label") == 2
    )
    assert counted.json["dead_letters"]["by_reason"] == {"bad-label": 2}
    told = await asyncio.to_thread(sbic, hooked.projects[0], "status")
    assert "bad-label" in told.stdout
    shown = await asyncio.to_thread(sbic, hooked.projects[0], "dead-letters", "show")
    assert "'fish' is not one of the classes" in shown.stdout
    assert "2 choices at once" in shown.stdout


async def test_an_export_is_imported_with_what_it_cannot_use_listed(
    studio: RealLabelStudio, broker: EmbeddedBroker, tmp_path: Path
) -> None:
    project = (await studio.make("projects/", {"title": "Export", "label_config": CONFIG}))["id"]
    body = {"project": project, "data": {"text": "a pet"}}
    task = (await studio.make("tasks/", body))["id"]
    owner = (await studio.ask("GET", "current-user/whoami"))[1]["id"]
    await studio.annotate(task, owner, "cat", "dog")
    await studio.annotate(task, owner, "dog")
    status, exported = await studio.ask("GET", f"projects/{project}/export?exportType=JSON")
    assert status == 200
    path = tmp_path / "export.json"
    path.write_bytes(dumps(exported))
    settings = await new_project(broker, classes="cat,dog")
    ended = await asyncio.to_thread(sbic, settings, "import", "label-studio", str(path))
    assert ended.returncode == 0, ended.stderr
    assert "2 choices at once" in ended.stderr
    assert set(await standing_labels(settings)) == {(str(task), str(owner), "dog")}


async def test_label_studio_refuses_a_private_address_unless_it_is_told_to_take_it(
    studio: RealLabelStudio, hooked: GatewayClient, tmp_path: Path
) -> None:
    """As docs/label-studio.md says; if this fails, that page has to change."""
    port = free_port()
    folder = tmp_path / "copy"
    shutil.copytree(studio.folder, folder)  # its database takes minutes to make
    with started(folder, port):
        async with ClientSession() as http:
            protected = RealLabelStudio(f"http://127.0.0.1:{port}", http, folder)
            await protected.until_up()
            made = await protected.make("projects/", {"title": "Pets", "label_config": CONFIG})
            hook = {"project": made["id"], "url": f"{hooked.url}/hooks/label-studio"}
            status, refused = await protected.ask("POST", "webhooks/", hook)
            elsewhere = hook | {"url": "http://93.184.215.14/hooks/label-studio"}
            await protected.make("webhooks/", elsewhere)
    assert (status, "URL" in refused["detail"]) == (403, True), refused
