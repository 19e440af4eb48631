"""A real Arize Phoenix: its annotations are labels, and posteriors its annotations."""

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from time import monotonic
from typing import Any
from uuid import uuid4

import pytest
import pytest_asyncio
from aiohttp import ClientSession
from orjson import loads

from sbic.integrations.tools import SAME
from sbic.local.broker import EmbeddedBroker
from sbic.project.settings import Settings
from sbic.project.topics import Topics
from sbic.status.contents import standing_labels
from tests.gateway.client import new_project
from tests.instances import instance
from tests.phoenix.real import NEEDS_IT, RealPhoenix, span_id, started
from tests.projects import environment, records_of

pytestmark = NEEDS_IT

SPANS = 230  # more than one page


@pytest_asyncio.fixture(scope="module")
async def phoenix(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[RealPhoenix]:
    with started(tmp_path_factory.mktemp("phoenix")) as url:
        async with ClientSession() as http:
            found = RealPhoenix(url, http)
            await found.until_up()
            yield found


@pytest_asyncio.fixture(params=["first", "last"])
async def pets(broker: EmbeddedBroker, request: pytest.FixtureRequest) -> Settings:
    return await new_project(broker, classes="cat,dog", repeats=request.param)


async def sbic(settings: Settings, *arguments: str, **variables: str) -> tuple[int, str]:
    """The exit status of a command, and what it says."""
    ended = await asyncio.to_thread(
        subprocess.run,
        [sys.executable, "-m", "sbic", *arguments],
        env=environment(settings) | variables,
        capture_output=True,
        text=True,
        timeout=120,
    )
    return ended.returncode, ended.stderr


def project_name() -> str:
    return f"pets {uuid4().hex[:8]}"  # a space is to be quoted


async def stands(settings: Settings) -> set[tuple[str, str, int | str]]:
    return set(await standing_labels(settings))


async def posteriors(settings: Settings) -> dict[str, dict[str, Any]]:
    records = await records_of(settings, Topics(settings).posteriors.name)
    return {record.key.decode(): loads(record.value) for record in records}


async def until_counted(settings: Settings, labels: dict[str, int]) -> dict[str, dict[str, Any]]:
    """The posteriors, once each of these tasks has as many labels."""
    deadline = monotonic() + 60
    while True:
        found = await posteriors(settings)
        if {task: each["labels"] for task, each in found.items() if each["labels"]} == labels:
            return found
        assert monotonic() < deadline, found
        await asyncio.sleep(0.2)


async def test_annotations_are_imported_and_posteriors_pushed_each_once(
    phoenix: RealPhoenix, pets: Settings, broker: EmbeddedBroker
) -> None:
    """Spans have ids of their own for each run: an id is unique in all of Phoenix."""
    project = project_name()
    first = int(uuid4().hex[:8], 16) << 16
    spans = range(first, first + SPANS)
    await phoenix.make_spans(project, spans)
    for number in spans[:3]:
        for who in ("ann", "bob"):
            await phoenix.annotate(number, who, "cat")
        await phoenix.annotate(number, "", "Hund", kind="LLM")
    await phoenix.annotate(spans[-1], "ann", "dog")
    await phoenix.annotate(spans[-1], "program", "dog", kind="CODE")
    await phoenix.annotate(spans[4], "ann", "fish")
    await phoenix.annotate(spans[4], "bob", None, result={"score": 0.5})
    await phoenix.annotate(spans[4], "cem", None)
    await phoenix.annotate(spans[5], "ann", "cat", name="other")

    at = phoenix.url, "--project", project
    wanted = ("import", "phoenix", *at, "--annotation", "pet", "--label-map", "Hund=dog")
    status, told = await sbic(pets, *wanted)
    assert status == 0, told
    *unused, counts = told.splitlines()
    assert counts == (
        "annotations: 12 (12 new, 0 changed, 0 unchanged); deleted: 0; not used: 2; labels sent: 12"
    )
    assert {reason.partition(": ")[2].split(": ", 1)[1] for reason in unused} == {
        "the label 'fish' is not one of the classes 'cat', 'dog': map it to one",
        "it has a score, 0.5, and no label",
    }
    given = {(span_id(n), who, "cat") for n in spans[:3] for who in ("ann", "bob")}
    given |= {(span_id(n), "pet", "dog") for n in spans[:3]}
    given |= {(span_id(spans[-1]), who, "dog") for who in ("ann", "program")}
    assert await stands(pets) == given
    assert "0 new, 0 changed, 12 unchanged" in (await sbic(pets, *wanted))[1]

    counted = {span_id(n): 3 for n in spans[:3]} | {span_id(spans[-1]): 2}
    with instance(broker.url, pets.prefix) as one:
        await asyncio.to_thread(one.wait_ready)
        await until_counted(pets, counted)
    believed = await posteriors(pets)  # which do not change any more

    push = "push", "phoenix", *at, "--annotation", "crowd"
    looked_at = [*spans[:6], spans[-1]]
    told = "tasks: 4 (4 new, 0 changed, 0 unchanged)"
    assert await sbic(pets, *push, "--dry-run") == (0, f"{told}; nothing was written\n")
    assert await phoenix.annotations(project, looked_at, "crowd") == {}
    assert await sbic(pets, *push) == (0, f"{told}\n")
    written = await phoenix.annotations(project, looked_at, "crowd")
    assert_says(written, believed, counted, f"sbic:{pets.prefix}")
    assert await sbic(pets, *push) == (0, "tasks: 4 (0 new, 0 changed, 4 unchanged)\n")
    assert await phoenix.annotations(project, looked_at, "crowd") == written

    # what is pushed is no label; what changes and what is deleted reaches the pipeline
    assert (await sbic(pets, *wanted, "--annotation", "crowd"))[1].endswith("labels sent: 0\n")
    await phoenix.annotate(spans[0], "ann", "dog")
    await phoenix.delete(project, "program")
    _, told = await sbic(pets, *wanted, "--prune")
    assert "0 new, 1 changed, 10 unchanged); deleted: 1" in told
    given -= {(span_id(spans[0]), "ann", "cat"), (span_id(spans[-1]), "program", "dog")}
    given |= {(span_id(spans[0]), "ann", "dog")}
    assert await stands(pets) == given
    await phoenix.annotate(spans[-1], "program", "cat", kind="CODE")
    assert "(1 new, 0 changed, 11 unchanged)" in (await sbic(pets, *wanted, "--prune"))[1]
    given |= {(span_id(spans[-1]), "program", "cat")}
    assert await stands(pets) == given
    assert (await sbic(pets, *wanted, "--prune"))[1].endswith("labels sent: 0\n")

    with instance(broker.url, pets.prefix) as one:
        await asyncio.to_thread(one.wait_ready)
        await until_predicted(pets, span_id(spans[0]), "dog")
    believed = await posteriors(pets)
    status, told = await sbic(pets, *push)
    assert (status, "(0 new, 0 changed" in told) == (0, False), told
    written = await phoenix.annotations(project, looked_at, "crowd")
    assert_says(written, believed, counted, f"sbic:{pets.prefix}")


def assert_says(
    written: dict[str, Mapping[str, Any]],
    believed: dict[str, dict[str, Any]],
    counted: dict[str, int],
    identifier: str,
) -> None:
    """Annotations are the posteriors of the spans with labels, and nothing else is one."""
    assert written.keys() == counted.keys()
    for span, each in written.items():
        posterior = believed[span]
        shares = posterior["probabilities"].values()
        assert each["result"]["label"] == posterior["prediction"]
        assert each["result"]["score"] == pytest.approx(max(shares), abs=SAME)
        assert each["result"]["explanation"] == f"from {counted[span]} labels"
        assert (each["annotator_kind"], each["identifier"]) == ("CODE", identifier)


async def until_predicted(settings: Settings, task: str, prediction: str) -> None:
    deadline = monotonic() + 60
    while (found := await posteriors(settings))[task]["prediction"] != prediction:
        assert monotonic() < deadline, found
        await asyncio.sleep(0.2)


async def test_what_cannot_be_is_one_line(phoenix: RealPhoenix, broker: EmbeddedBroker) -> None:
    pets = await new_project(broker, classes="cat,dog")
    project = project_name()
    first = int(uuid4().hex[:8], 16) << 16
    await phoenix.make_spans(project, [first])
    at = phoenix.url, "--project", project
    expected = [
        (("import", "phoenix", *at, "--annotation", "pet"), 2, "has an annotation 'pet'"),
        (
            ("import", "phoenix", phoenix.url, "--project", "no", "--annotation", "pet"),
            2,
            "Phoenix has no 'no'",
        ),
        (("push", "phoenix", phoenix.url, "--project", "no"), 2, "Phoenix has no 'no'"),
        (("push", "phoenix", *at, "--annotation", "note"), 2, "choose another --annotation"),
        (("push", "phoenix", f"{phoenix.url}/x", "--project", "no"), 2, "is not the API of"),
        (("push", "phoenix", "http://127.0.0.1:1", "--project", "no"), 1, "cannot reach Phoenix"),
        (("push", "phoenix", *at), 0, "tasks: 0 "),
    ]
    for arguments, status, told in expected:
        ended = await sbic(pets, *arguments)
        assert (ended[0], told in ended[1], ended[1].count("\n")) == (status, True, 1), ended


async def test_a_phoenix_with_authentication_wants_its_key(
    broker: EmbeddedBroker, tmp_path: Path
) -> None:
    pets = await new_project(broker, classes="cat,dog")
    key = "0123456789abcdef0123456789abcdef-A1"
    protected = {"PHOENIX_ENABLE_AUTH": "true", "PHOENIX_SECRET": "s3cret" * 6 + "A"}
    with started(tmp_path, **protected, PHOENIX_ADMIN_SECRET=key) as url:
        async with ClientSession() as http:
            phoenix = RealPhoenix(url, http, key)
            await phoenix.until_up()
            await phoenix.make_spans("pets", [1])
            await phoenix.annotate(1, "", "cat")
            wanted = "import", "phoenix", url, "--project", "pets", "--annotation", "pet"
            status, told = await sbic(pets, *wanted)
            assert (status, told.count("\n"), "SBIC_PHOENIX_TOKEN" in told) == (2, 1, True), told
            (tmp_path / "key").write_text(key + "\n")
            secret = {"SBIC_PHOENIX_TOKEN_FILE": str(tmp_path / "key")}
            status, told = await sbic(pets, *wanted, **secret)
            assert (status, told.endswith("labels sent: 1\n")) == (0, True), told
            ((task, worker, label),) = await stands(pets)
            assert (task, worker.startswith("User:"), label) == (span_id(1), True, "cat")
