"""Uncertainty sampling through Kafka is as much better than uniform sampling as it is in memory."""

import asyncio
from collections.abc import Callable
from random import Random
from statistics import mean, stdev

import pytest
from orjson import loads

from sbic.commands.crowd import Plan, RoundRobin
from sbic.commands.simulate import TasksOfOthers, project_of, simulate_policies
from sbic.infer.fast_sbic import FastSBIC
from sbic.kafka.admin import ensure_topics
from sbic.local.broker import EmbeddedBroker
from sbic.local.java import free_port
from sbic.local.processes import environment
from sbic.policy.policy import AnswerSet, Policy, Uncertainty, Uniform
from sbic.progress import progress
from sbic.project.revision import Given
from tests.agents.kafka import ProjectOnBroker
from tests.instances import instance
from tests.projects import new_project

PLAN = Plan(tasks=300, workers=300, labels_per_task=20, at_once=30, seed=1)
RUNS = 15  # in memory: the same crowd, another order and other ties each time
MAKE: dict[str, Callable[[list[str], int], Policy]] = {
    "uniform": Uniform,
    "uncertainty": Uncertainty,
}


def in_memory(plan: Plan, policy_name: str, seed: int) -> float:
    """The error in the end, where each label is counted before the next worker asks."""
    truth, workers = plan.draw_truth("x"), plan.draw_workers("x")
    tasks = list(truth)
    policy = MAKE[policy_name](tasks, seed)
    engine: FastSBIC[str, str] = FastSBIC(plan.habits.accuracy)
    order = RoundRobin(workers, Random(seed))
    answered = {name: AnswerSet() for name in workers}
    labels = [0] * len(tasks)
    for number in range(len(tasks)):
        policy.update(number, 0, 0.0)
    for _ in range(plan.labels):
        name = order.next()
        assert name is not None
        order.done(name)
        chosen = policy.choose(answered[name])
        assert chosen is not None
        (answer,) = workers[name].respond(truth[tasks[chosen]]).labels
        _, log_odds = engine.observe(tasks[chosen], name, 2 * answer - 1)
        answered[name].add(chosen)
        labels[chosen] += 1
        policy.update(chosen, labels[chosen], abs(log_odds))
    return mean(engine.log_odds(task) * (2 * truth[task] - 1) <= 0 for task in truth)


@pytest.fixture(scope="module")
def expected() -> dict[str, list[float]]:
    """The errors in memory, of each policy."""
    return {name: [in_memory(PLAN, name, seed) for seed in range(RUNS)] for name in MAKE}


def test_in_memory_the_policies_differ_by_far(expected: dict[str, list[float]]) -> None:
    far = mean(expected["uniform"]) - mean(expected["uncertainty"])
    spread = (stdev(expected["uniform"]) ** 2 + stdev(expected["uncertainty"]) ** 2) ** 0.5
    assert far > 3 * spread, "or the comparison below shows nothing"


@pytest.mark.long
async def test_through_kafka_they_differ_as_in_memory(
    broker: EmbeddedBroker, expected: dict[str, list[float]]
) -> None:
    with progress("") as advance:
        runs = await simulate_policies(
            new_project(broker), ["uniform", "uncertainty"], PLAN, advance
        )
    errors = {str(run.policy): run.error[-1] for run in runs}
    assert errors["uncertainty"] < errors["uniform"]
    for policy, error in errors.items():
        off = (error - mean(expected[policy])) / stdev(expected[policy])
        assert abs(off) < 4, (policy, error, expected[policy])


async def test_open_tasks_under_one_policy_end_the_run_under_the_other_too(
    broker: EmbeddedBroker,
) -> None:
    settings = new_project(broker)
    project = project_of(settings, "uncertainty", PLAN)
    await ensure_topics(project)
    given = environment(Given.of(project).with_values(web_port=free_port()))
    with instance(broker.url, project.prefix, **given) as running:
        await asyncio.to_thread(running.wait_ready)
        await ProjectOnBroker(project).send([("a task of somebody's", "ann", 1)])
        await ProjectOnBroker(project).until_counted(1)
        assert await asyncio.to_thread(running.terminate) == 0
    with progress("") as advance, pytest.raises(TasksOfOthers):
        await asyncio.wait_for(
            simulate_policies(settings, ["uniform", "uncertainty"], PLAN, advance), 60
        )
    other = ProjectOnBroker(project_of(settings, "uniform", PLAN))
    said = [loads(record.value) for record in await other.read(other.topics.tasks.name)]
    status = {record["task"]: record.get("status") for record in said}
    assert set(status.values()) <= {"closed"}, "the tasks of the other run were left open"
