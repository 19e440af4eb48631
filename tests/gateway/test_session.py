import asyncio
from typing import Any

from sbic.gateway.session import session
from sbic.kafka.admin import ensure_topics
from sbic.local.broker import EmbeddedBroker
from sbic.project.opening import open_project, read_project
from sbic.project.revision import Given
from sbic.project.settings import Settings
from tests.agents.kafka import until
from tests.gateway.client import TOKEN, running_gateway
from tests.projects import new_project, sbic


async def test_a_session_from_before_the_first_revision_ends_when_there_is_one(
    broker: EmbeddedBroker,
) -> None:
    pets = new_project(broker, classes="cat,dog,bird")
    await ensure_topics(pets)
    given = Given.of(Settings(broker=pets.broker, prefix=pets.prefix))
    async with session(given) as early:
        assert early.settings.crowd_classes.is_signs
        await open_project(Given.of(pets))
        await asyncio.wait_for(early.run(), timeout=60)
    async with session(given) as later:
        assert later.settings.crowd_classes == pets.crowd_classes


async def test_each_project_of_a_gateway_shows_its_own_budget_and_a_change_at_once(
    broker: EmbeddedBroker,
) -> None:
    rich = new_project(broker, budget=8_000, block_below=0.5)
    poor = new_project(broker)
    for each in (rich, poor):
        await open_project(Given.of(each))
    async with running_gateway([rich, poor]) as client:
        await client.until_ready()

        async def status(of: Settings) -> Any:
            return (await client.get(f"/status?project={of.prefix}")).json

        assert (await status(rich))["budget"]["labels"] == 8_000
        assert (await status(rich))["settings"]["block_below"] == 0.5
        assert (await status(poor))["budget"] is None
        said = await asyncio.to_thread(sbic, poor, "project", "set", "budget=70")
        assert said.returncode == 0, said.stderr

        async def follows() -> bool:
            found = (await status(poor))["budget"]  # the session goes on: never 503
            return found is not None and found["left"] == 70

        await until(follows)
        assert (await status(rich))["budget"]["labels"] == 8_000


async def test_a_rule_is_changed_over_http_at_once_and_nothing_else_is(
    broker: EmbeddedBroker,
) -> None:
    here = new_project(broker, stop_labels=9)
    await open_project(Given.of(here))
    async with running_gateway([here], tokens=(TOKEN,)) as client:
        token = {"Authorization": f"Bearer {TOKEN}"}
        await client.until("/readyz", lambda answer: answer.status == 200)
        assert (await client.post("/rules", {"budget": 10})).status == 401
        assert (await client.get("/rules", **token)).json["rules"]["stop_labels"] == 9
        new = {"budget": 500, "stop_labels": None, "stop_error": 0.05}
        changed = await client.post("/rules", new, **token)
        assert changed.status == 200
        assert new.items() <= changed.json["rules"].items()
        revision = await read_project(here)
        assert revision is not None
        assert (revision.number, revision.settings["budget"]) == (2, 500)
        for bad, problem in (
            ({"alpha": 3}, "'alpha' is not a rule; rules are "),
            ({"budget": "5"}, "must be a number, true, false or null"),
            ({"budget": -1}, "must be a whole number"),
            ({"budget": [[1]]}, "must be a number, true, false or null"),
            ([], "not an object"),
        ):
            refused = await client.post("/rules", bad, **token)
            assert refused.status == 422
            assert problem in refused.json["error"]
        assert await read_project(here) == revision

        async def is_shown() -> bool:
            return bool((await client.get("/status", **token)).json["budget"])

        await until(is_shown)
