"""Cheap judges first and a person after them, on a real broker: instances, a crash, a recount."""

from contextlib import ExitStack
from typing import Any

from orjson import loads

from sbic.local.broker import EmbeddedBroker
from tests.agents.kafka import ProjectOnBroker, project, until
from tests.agents.workforce import Workforce, register, workforce
from tests.instances import instance
from tests.project.test_recreation import command
from tests.projects import sbic

PARTITIONS = 4
JUDGES = "big", "mid", "small"
TASKS = [f"t{number}" for number in range(12)]
ROSTER = "worker,tier,price,group\n" + "".join(f"{judge},1,0.25,family\n" for judge in JUDGES)
RULES: dict[str, Any] = {
    "partitions": PARTITIONS,
    "policy": "escalate",
    "algorithm": "settled",
    "stop_confidence": 0.95,
}


async def answer(crowd: Workforce, worker: str) -> dict[str, Any]:
    await crowd.ask(worker)
    while "ended" in (found := await crowd.hear(worker)):
        pass
    return found


async def until_reason(crowd: Workforce, worker: str, reason: str) -> None:
    async def is_so() -> bool:
        return (await answer(crowd, worker)).get("reason") == reason

    await until(is_so)


async def all_of(here: ProjectOnBroker, crowd: Workforce, worker: str, label: int) -> None:
    """Let a worker answer whatever they get, until they get nothing more."""
    given: set[str] = set()

    async def has_all() -> bool:
        found = await answer(crowd, worker)
        if found["task"] is not None:
            assert found["policy"] == "escalate"
            given.add(found["task"])
            await crowd.hand_in(worker, found["task"], label)
        return given == {*TASKS}

    await until(has_all)


async def test_judges_then_a_person_then_no_money_whatever_happens_to_instances(
    broker: EmbeddedBroker,
) -> None:
    here = await project(broker, **RULES)
    run = broker.url, here.settings.prefix
    env = {f"SBIC_{name.upper()}": str(value) for name, value in RULES.items()}
    imported = sbic(here.settings, "workers", "import", "-", stdin=ROSTER + "ann,2,10,\n")
    assert imported.returncode == 0, imported.stderr
    async with workforce(here) as crowd:
        with ExitStack() as stack:
            instances = [stack.enter_context(instance(*run, **env)) for _ in range(2)]
            for running in instances:
                running.wait_ready()
            await register(here, TASKS)
            await until_reason(crowd, "ann", "other-tier")
            for judge, label in zip(JUDGES, (1, -1, 1), strict=True):
                await all_of(here, crowd, judge, label)
            for running in instances:
                running.metrics_with("sbic_spent_money", 9.0)
                assert running.metrics()["sbic_spent_money"] == 9.0
            instances[0].kill()
            await all_of(here, crowd, "ann", -1)
            instances[1].metrics_with('sbic_own_tasks{state="escalated"}', len(TASKS))
            await until_reason(crowd, "ann", "no-open-task")
            assert instances[1].metrics()["sbic_spent_money"] == 129.0
            await command(here, "recount")
            instances[1].metrics_with("sbic_spent_money", 129.0)
            instances[1].metrics_with('sbic_own_tasks{state="escalated"}', len(TASKS))
            await register(here, ["late"])
            await until(lambda: gets(crowd, "big", "late"))
            await command(here, "set", "budget_cost=129")

            async def is_spent() -> bool:
                return (await answer(crowd, "mid")).get("reason") == "budget-spent"

            await until(is_spent)
            assert instances[1].metrics()["sbic_budget_left_money"] == 0.0
            assert instances[1].terminate() == 0
    status = sbic(here.settings, "status", "--json")
    found = loads(status.stdout)
    assert found["money"] == {"spent": 129.0, "budget": 129.0, "left": 0.0}
    assert found["tasks"]["closed"]["escalated"] == len(TASKS)
    assert found["tasks"]["closed"]["budget"] == 1


async def gets(crowd: Workforce, worker: str, task: str) -> bool:
    return bool((await answer(crowd, worker))["task"] == task)
