"""Runs the same crowd on several pipelines, one for each policy, on one broker."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from time import monotonic
from typing import Literal
from zlib import crc32

from pipeline.kafka.asking import PATIENCE_SECONDS, NoAnswer
from pipeline.local.instances import instances_of, is_ready, running
from pipeline.local.ports import free_port
from pipeline.progress import Advance
from pipeline.project.given import Given
from pipeline.project.opening import open_project
from pipeline.settings import Settings
from pipeline.simulation.crowd_at_work import Plan
from pipeline.simulation.simulate import Run, simulate
from pipeline.simulation.workers import Habits

Policy = Literal["uniform", "uncertainty"]


def project_of(settings: Settings, policy: Policy, plan: Plan) -> Settings:
    """The project of a policy, with the distribution of the crowd's accuracies as its prior.

    Its prefix includes the algorithm, the classes and the accuracies if they are not the defaults.

    >>> project_of(Settings(prefix="birds"), "uniform", Plan()).prefix
    'birds-uniform'
    >>> settled = Settings(prefix="birds", classes="cat,dog", algorithm="settled")
    >>> project_of(settled, "uniform", Plan()).prefix
    'birds-uniform-settled-7c41e31f'
    """
    accuracy = plan.habits.accuracy
    parts = [settings.prefix, policy]
    if settings.algorithm is not None:
        parts.append(settings.algorithm)
    if not settings.crowd_classes.is_signs:
        parts.append(f"{crc32(','.join(settings.crowd_classes.names).encode()):08x}")
    if accuracy != Habits().accuracy:
        parts.append(f"beta-{accuracy.alpha:g}-{accuracy.beta:g}")
    return replace(
        settings,
        prefix="-".join(parts),
        policy=policy,
        alpha=accuracy.alpha,
        beta=accuracy.beta,
    )


async def simulate_policies(
    settings: Settings, policies: Sequence[Policy], plan: Plan, advance: Advance
) -> list[Run]:
    """A run for each policy; on return the instances have exited, the topics stay."""
    projects = [project_of(settings, policy, plan) for policy in policies]
    ports = [free_port() for _ in projects]
    commands = []
    for project, port in zip(projects, ports, strict=True):
        given = Given.of(project)
        await open_project(given)
        commands += instances_of(given, [port])
    log: list[str] = []

    def keep(name: str, line: str) -> None:
        log.append(line)

    async with running(commands, log=keep, report=keep):
        deadline = monotonic() + PATIENCE_SECONDS
        while not all([await asyncio.to_thread(is_ready, port) for port in ports]):
            if monotonic() > deadline:
                raise NoAnswer(f"the instances are not ready; their last log line: {log[-1:]}")
            await asyncio.sleep(0.1)
        try:  # as a group, so that a failed run cancels the others before the instances stop
            async with asyncio.TaskGroup() as group:
                runs = [group.create_task(simulate(each, plan, advance)) for each in projects]
        except BaseExceptionGroup as several:
            raise several.exceptions[0] from None
        return [run.result() for run in runs]
