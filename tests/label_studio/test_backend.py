"""A real Label Studio with the gateway as its machine learning backend, and `sbic push`."""

import asyncio
import re
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from time import monotonic
from typing import Any, NamedTuple

import pytest_asyncio

from sbic.local.broker import EmbeddedBroker
from sbic.local.java import free_port
from sbic.project.settings import Settings
from tests.gateway.client import GatewayClient, new_project, running_gateway
from tests.instances import instance
from tests.label_studio.real import CONFIG, NEEDS_IT, TOKEN, RealLabelStudio, User
from tests.projects import environment

pytestmark = NEEDS_IT

TASKS = 12
SCORES = "tasks/?project={}&page_size=100&fields=all"


@pytest_asyncio.fixture
async def connected(broker: EmbeddedBroker) -> AsyncIterator[GatewayClient]:
    """A gateway and an instance of a project with the classes cat, dog and fish."""
    pets = await new_project(broker, classes="cat,dog,fish")
    with instance(broker.url, pets.prefix) as one:
        await asyncio.to_thread(one.wait_ready)
        async with running_gateway([pets]) as client:
            await client.until_ready()
            yield client


class Prediction(NamedTuple):
    choice: str | None
    score: float
    version: str


class StudioProject:
    """A project with tasks, whose annotators get the task with the lowest score next."""

    def __init__(self, studio: RealLabelStudio, number: int, tasks: list[int]) -> None:
        self.studio = studio
        self.number = number
        self.tasks = tasks

    @classmethod
    async def made(cls, studio: RealLabelStudio) -> "StudioProject":
        fields = {"label_config": CONFIG, "maximum_annotations": 5}
        sampling = {"title": "Pets", "sampling": "Uncertainty sampling"}
        number = (await studio.make("projects/", {**fields, **sampling}))["id"]
        tasks = [{"data": {"text": f"pet {n}"}} for n in range(TASKS)]
        done = await studio.make(f"projects/{number}/import?return_task_ids=1", tasks)
        return cls(studio, number, done["task_ids"])

    async def connect(self, gateway: GatewayClient, **fields: Any) -> tuple[int, Any]:
        prefix = gateway.projects[0].prefix
        url = f"{gateway.url}/label-studio/{prefix}"
        body = {"project": self.number, "url": url, "title": prefix, **fields}
        return await self.studio.ask("POST", "ml", body)

    async def retrieve(self) -> None:
        """As somebody does in the data manager."""
        action = f"dm/actions?id=retrieve_tasks_predictions&project={self.number}"
        await self.studio.make(action, {"selectedItems": {"all": True, "excluded": []}})

    async def next_as_displayed(self, user: User) -> int:
        """The task that a user gets with *Label Tasks As Displayed*, in the order of the scores."""
        body = {
            "ordering": ["tasks:predictions_score"],
            "selectedItems": {"all": True, "excluded": []},
        }
        path = f"dm/actions?id=next_task&project={self.number}"
        return int((await self.studio.make(path, body, user.token))["id"])

    async def predictions(self) -> dict[int, Prediction]:
        """The prediction of each task that has one; none has two."""
        found = (await self.studio.get(SCORES.format(self.number)))["tasks"]
        assert all(len(task["predictions"]) <= 1 for task in found)
        return {
            task["id"]: Prediction(choice_in(each["result"]), each["score"], each["model_version"])
            for task in found
            for each in task["predictions"]
        }

    async def until(self, is_so: Callable[[dict[int, Prediction]], bool]) -> dict[int, Prediction]:
        deadline = monotonic() + 60
        while not is_so(found := await self.predictions()):
            assert monotonic() < deadline, found
            await asyncio.sleep(0.2)
        return found


def choice_in(result: list[Any]) -> str | None:
    return result[0]["value"]["choices"][0] if result else None


def studio_environment(settings: Settings, token: str = TOKEN) -> dict[str, str]:
    return environment(settings) | {"SBIC_LABEL_STUDIO_TOKEN": token}


def push_command(project: StudioProject, *arguments: str) -> list[str]:
    place = project.studio.url, "--project", str(project.number)
    return [sys.executable, "-m", "sbic", "push", "label-studio", *place, *arguments]


async def push(settings: Settings, project: StudioProject, *arguments: str, **env: str) -> str:
    """Run `sbic push label-studio`; it has to succeed. What it says."""
    ended = await asyncio.to_thread(
        subprocess.run,
        push_command(project, *arguments),
        env=studio_environment(settings) | env,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert ended.returncode == 0, ended.stderr
    return str(ended.stderr)


@contextmanager
def following(settings: Settings, project: StudioProject, log: Path) -> Iterator[str]:
    """A push that follows; the address of its metrics."""
    port = free_port()
    with log.open("wb") as out:
        process = subprocess.Popen(
            push_command(project, "--follow", "--metrics-port", str(port)),
            env=studio_environment(settings),
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
        )
        try:
            yield f"http://127.0.0.1:{port}/metrics"
            process.terminate()
            assert process.wait(30) == 0, log.read_text()
        finally:
            process.kill()
            process.wait()


async def test_a_connected_project_shows_predictions_and_gives_the_most_disputed_task_next(
    studio: RealLabelStudio, connected: GatewayClient, tmp_path: Path
) -> None:
    settings = connected.projects[0]
    project = await StudioProject.made(studio)
    status, made = await project.connect(connected)
    assert (status, made["state"], made["model_version"]) == (201, "CO", settings.prefix), made
    await project.retrieve()
    found = await project.predictions()
    assert found == dict.fromkeys(project.tasks, Prediction(None, 0.333333, settings.prefix))

    annotators = [await studio.signed_up(f"{name}-{project.number}") for name in ("a", "b", "c")]
    disputed = project.tasks[3:7]
    with following(settings, project, tmp_path / "log") as metrics:
        for turn, user in enumerate(annotators):
            for task in project.tasks:
                choice = ("cat", "dog", "fish")[turn] if task in disputed else "dog"
                await studio.annotate(task, user.id, choice, token=user.token)
        last = await project.until(
            lambda found: all((found[task].score > 0.6) == (task not in disputed) for task in found)
        )
        agreed = {each.choice for task, each in last.items() if task not in disputed}
        assert agreed == {"dog"}
        for name in ("d", "e", "f"):
            user = await studio.signed_up(f"{name}-{project.number}")
            task = await project.next_as_displayed(user)
            assert task in disputed
            assert last[task].score == min(each.score for each in last.values())
            await studio.annotate(task, user.id, "dog", token=user.token)
            before = last[task].score
            last = await project.until(lambda found: found[task].score != before)  # noqa: B023

        async with studio.http.get(metrics) as answer:
            text = await answer.text()
        assert "sbic_push_connected 1.0" in text
        await connected.until(
            "/status",
            lambda answer: (
                [(each["name"], each["lag"]) for each in answer.json["sinks"]["first"]]
                == [(f"label-studio-{project.number}", 0)]
            ),
        )
        (written,) = re.findall(r"^sbic_push_predictions_total (\S+)", text, re.MULTILINE)
        assert float(written) >= TASKS

        added = await studio.make("tasks/", {"project": project.number, "data": {"text": "new"}})
        await project.until(lambda found: added["id"] in found)
        for user in annotators:
            path = f"/workers/{user.id}"
            await connected.until(
                path,
                lambda answer: answer.status == 200 and answer.json.get("name") == user.email,  # noqa: B023
            )


async def test_what_does_not_fit_is_said_where_somebody_connects(
    studio: RealLabelStudio, broker: EmbeddedBroker
) -> None:
    birds = await new_project(broker, classes="wren,robin")
    token = "a-token-for-label-studio"
    project = await StudioProject.made(studio)
    async with running_gateway([birds], tokens=(token,)) as gateway:
        login = {"auth_method": "BASIC_AUTH", "basic_auth_user": "sbic", "basic_auth_pass": "wrong"}
        status, refused = await project.connect(gateway, **login)
        assert (status, "authentication parameters" in str(refused)) == (400, True), refused
        login["basic_auth_pass"] = token
        deadline = monotonic() + 60
        while "no choice stands for the class" not in str(refused):
            assert monotonic() < deadline, refused
            status, refused = await project.connect(gateway, **login)
        assert (status, "'wren'" in str(refused)) == (400, True), refused


async def test_a_push_writes_what_differs_and_nothing_twice(
    studio: RealLabelStudio, connected: GatewayClient
) -> None:
    settings = connected.projects[0]
    project = await StudioProject.made(studio)
    assert "12 new, 0 changed, 0 unchanged); nothing" in await push(settings, project, "--dry-run")
    assert await project.predictions() == {}
    assert "12 new, 0 changed, 0 unchanged)" in await push(settings, project)
    assert "0 new, 0 changed, 12 unchanged)" in await push(settings, project)
    assert (await studio.get(f"projects/{project.number}/"))["model_version"] == settings.prefix

    unknown, first, *labelled, last = project.tasks
    labels = [
        {"task": str(task), "worker": worker, "label": "fish"}
        for task in (first, *labelled, last)
        for worker in ("ann", "bob", "cem")
    ]
    await connected.post("/labels", labels)
    for task in (first, *labelled, last):
        await connected.until(
            f"/tasks/{task}", lambda answer: answer.status == 200 and answer.json["labels"] == 3
        )
    gone = (await studio.get(SCORES.format(project.number)))["tasks"][-1]["predictions"][0]["id"]
    assert (await studio.ask("DELETE", f"predictions/{gone}/"))[0] == 204
    other = {"task": first, "result": [], "score": 0.1, "model_version": "other"}
    await studio.make(f"projects/{project.number}/import/predictions", [other])

    personal = (await studio.make("token/", {}))["token"]  # the other kind of token
    said = await push(settings, project, SBIC_LABEL_STUDIO_TOKEN=personal)
    assert "1 new, 10 changed, 1 unchanged)" in said
    found = (await studio.get(SCORES.format(project.number)))["tasks"]
    by_version = {
        task["id"]: {each["model_version"]: each for each in task["predictions"]} for task in found
    }
    assert by_version[first].keys() == {settings.prefix, "other"}
    ours = {task: versions[settings.prefix] for task, versions in by_version.items()}
    assert {task for task in ours if choice_in(ours[task]["result"]) == "fish"} == {
        *(first, *labelled, last)
    }
    # with no more than one annotator, uncertainty sampling gives the lowest score
    assert (await studio.get(f"projects/{project.number}/next"))["id"] == unknown


async def test_what_cannot_be_pushed_is_refused_in_a_line(
    studio: RealLabelStudio, connected: GatewayClient
) -> None:
    project = await StudioProject.made(studio)
    nowhere = StudioProject(studio, 999_999, [])
    for pushed, token, said in (
        (project, "0" * 40, "refuses the token (401)"),
        (project, "a.b.c", "refuses the token (401)"),
        (nowhere, TOKEN, "Label Studio has no projects/999999"),
    ):
        ended = await asyncio.to_thread(
            subprocess.run,
            push_command(pushed),
            env=studio_environment(connected.projects[0], token),
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert (ended.returncode, said in ended.stderr) == (2, True), ended.stderr
        assert ended.stderr.count("\n") == 1
        assert token not in ended.stderr
