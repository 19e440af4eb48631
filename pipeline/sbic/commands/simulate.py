"""`sbic simulate`: lets a simulated crowd work with the pipeline."""

import asyncio
import signal
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median, quantiles
from time import monotonic
from typing import Any, Literal
from uuid import uuid4
from zlib import crc32

import click

from sbic.commands import tell
from sbic.commands.crowd import (
    CrowdAtWork,
    CrowdClient,
    ErrorCurve,
    Habits,
    NoAnswer,
    Plan,
    Tier,
    crowd_client,
)
from sbic.commands.options import (
    BadInput,
    Function,
    given_options,
    in_order,
    in_project,
    run_connected,
)
from sbic.engine import AlgorithmName
from sbic.engine.labels import Prior
from sbic.files.tables import BadFile
from sbic.foreign import printable
from sbic.infer.registry import STREAMED, default_algorithm
from sbic.instance.requests import PolicyName
from sbic.kafka.errors import ClusterError
from sbic.kafka.reader import Reader, parsed, reading
from sbic.kafka.requests import PATIENCE_SECONDS
from sbic.local.java import free_port
from sbic.local.processes import instances_of, running, until_ready
from sbic.progress import Advance, progress
from sbic.project.opening import open_project
from sbic.project.revision import Given
from sbic.project.settings import BadSetting, Settings, command_line
from sbic.project.topics import Topics
from sbic.wire.bad import BadRecord
from sbic.wire.posteriors import posterior_parser
from sbic.wire.workers import TIERS

# Runs a simulated crowd on the running pipeline of a project.
#
# Like any client, it sees only assignments and posteriors of the pipeline.


class TasksOfOthers(Exception):
    """The project has open tasks, which simulated workers would answer."""

    def __init__(self, prefix: str, count: int) -> None:
        super().__init__(
            f"{prefix} already has {count:,} open tasks, and a simulated crowd would answer them: "
            "choose another --prefix, or start separate instances with --policy compare"
        )


@dataclass(frozen=True)
class SimulationResult:
    """The results of a run: `error` is the error at 1, 2, ... labels per task on average.

    `waits` are the seconds from each request to its assignment; `came_to` is as in `CrowdAtWork`.
    `costs` is what was spent at each of the errors; the last of both is of the end.
    """

    policy: str | None
    error: list[float]
    waits: list[float]
    came_to: Mapping[str, int]
    seconds: float
    costs: list[float]


class Simulation:
    """One run of a plan."""

    def __init__(self, plan: Plan, client: CrowdClient, reader: Reader, advance: Advance) -> None:
        name = f"simulated-{uuid4().hex[:6]}"  # the project may have tasks of earlier runs
        self._truth = plan.draw_truth(name)
        self._curve = ErrorCurve(self._truth, len(plan.classes))
        self._client = client
        self._posteriors = reader
        self._parse = posterior_parser(plan.classes)
        self._moved = asyncio.Event()
        self._open = set(self._truth)  # a task that a stop rule has closed keeps its reason
        workers = plan.draw_workers(name)
        self._roster = plan.draw_roster(workers)
        self._costs: list[float] = []
        self._crowd = CrowdAtWork(plan, self._truth, workers, client, lambda sent: advance())

    async def follow(self) -> None:
        """Read the posteriors until cancelled."""
        async for records in self._posteriors.follow():
            for _, posterior in parsed(records, self._parse):
                self._curve.learn(posterior)
                new = len(self._curve.points) - len(self._costs)
                self._costs += [self._crowd.cost] * new
                if posterior.reason is not None:
                    self._open.discard(posterior.task)
            if records:
                self._moved.set()

    async def execute(self) -> SimulationResult:
        """Run the plan, and close those of its tasks that are open at the end."""
        curve, crowd = self._curve, self._crowd
        is_away = False
        try:
            await self._client.enlist(self._roster)
            await self._client.describe(self._truth)
            await self._until(lambda: curve.tasks == len(self._truth), "tasks were not registered")
            start = monotonic()
            await crowd.work()
            given = crowd.came_to["labels"]
            await self._until(lambda: curve.labels >= given, "labels were not counted")
            seconds = monotonic() - start
            errors, costs = curve.points, self._costs
            if self._roster:
                errors, costs = [*errors, curve.error], [*costs, crowd.cost]
            outcome = crowd.policy, errors, crowd.waits, crowd.came_to
            return SimulationResult(*outcome, seconds, costs)
        except ClusterError:
            is_away = True
            raise
        finally:
            if not is_away:
                await self._client.describe(self._open, status="closed")
                await self._client.enlist(dict.fromkeys(self._roster))

    async def _until(self, condition: Callable[[], bool], problem: str) -> None:
        """Wait for a condition while posteriors keep arriving; raises `NoAnswer`."""
        while not condition():
            self._moved.clear()
            try:
                async with asyncio.timeout(PATIENCE_SECONDS):
                    await self._moved.wait()
            except TimeoutError:
                raise NoAnswer(
                    f"{problem}, and no posterior arrived for {PATIENCE_SECONDS} seconds: is an "
                    f"instance running? Start one with: {self._client.start_an_instance}"
                ) from None


async def simulate(settings: Settings, plan: Plan, advance: Advance) -> SimulationResult:
    """Run the plan on the pipeline of this project; `advance` is called for every label."""
    topic = Topics(settings).posteriors.name
    async with (
        crowd_client(settings, enlists=bool(plan.tiers)) as client,
        reading(settings, topic, from_start=True) as reader,
    ):
        await _check_that_nothing_is_open(settings, reader)
        simulation = Simulation(plan, client, reader, advance)
        try:
            async with asyncio.TaskGroup() as group:
                following = group.create_task(simulation.follow())
                run = await simulation.execute()
                following.cancel()
        except BaseExceptionGroup as several:
            raise several.exceptions[0] from None
    return run


async def _check_that_nothing_is_open(settings: Settings, reader: Reader) -> None:
    is_open: dict[str, bool] = {}
    parse = posterior_parser(settings.crowd_classes)
    async for records in reader.to_the_end():
        for _, posterior in parsed(records, parse):
            is_open[posterior.task] = posterior.reason is None
    if count := sum(is_open.values()):
        raise TasksOfOthers(settings.prefix, count)


# Runs the same crowd on several pipelines, one for each policy, on one broker.


STOP_CONFIDENCE = 0.9  # of projects for `escalate` that have none


def project_of(settings: Settings, policy: PolicyName, plan: Plan) -> Settings:
    """Return the project of a policy, with the distribution of the crowd's accuracies as its prior.

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
    if settings.crowd_classes.is_ordered:
        parts.append("ordered")
    if accuracy != Habits().accuracy:
        parts.append(f"beta-{accuracy.alpha:g}-{accuracy.beta:g}")
    return replace(
        settings,
        prefix="-".join(parts),
        policy=policy,
        stop_confidence=settings.stop_confidence
        or (STOP_CONFIDENCE if policy == "escalate" else None),
        alpha=accuracy.alpha,
        beta=accuracy.beta,
    )


async def simulate_policies(
    settings: Settings, policies: Sequence[PolicyName], plan: Plan, advance: Advance
) -> list[SimulationResult]:
    """Return a run for each policy; on return the instances have exited, the topics stay."""
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
        try:
            await until_ready(ports, PATIENCE_SECONDS)
        except TimeoutError as late:
            raise NoAnswer(f"{late}; their last log line: {log[-1:]}") from None
        try:  # as a group, so that a failed run cancels the others before the instances stop
            async with asyncio.TaskGroup() as group:
                runs = [group.create_task(simulate(each, plan, advance)) for each in projects]
        except BaseExceptionGroup as several:
            raise several.exceptions[0] from None
        return [run.result() for run in runs]


# The options of `sbic simulate` that describe the crowd.


POSITIVE = click.FloatRange(min=0, min_open=True)
SHARE = click.FloatRange(0, 1, max_open=True)
COUNT = click.IntRange(min=1)


def crowd_options(function: Function) -> Function:
    """Return the options of the simulated crowd: its size, and how its workers behave."""
    return in_order(
        click.option("--tasks", type=COUNT, default=1000, show_default=True),
        click.option("--workers", type=COUNT, default=2000, show_default=True),
        click.option(
            "--labels-per-task",
            type=COUNT,
            default=20,
            show_default=True,
            help="Labels per task on average: the policy decides which tasks get more.",
        ),
        click.option(
            "--at-once",
            type=COUNT,
            default=20,
            show_default=True,
            help="Workers at work at the same time.",
        ),
        click.option(
            "--accuracy",
            type=(POSITIVE, POSITIVE),
            metavar="A B",
            default=(4.0, 3.0),
            show_default=True,
            help="Workers' accuracies are drawn from Beta(A, B).",
        ),
        click.option(
            "--think",
            type=click.FloatRange(min=0),
            metavar="SECONDS",
            default=0.0,
            show_default=True,
            help="Average time that a worker thinks.",
        ),
        click.option(
            "--drop-outs",
            type=SHARE,
            default=0.0,
            show_default=True,
            help="Share of workers who leave with a task unanswered.",
        ),
        click.option(
            "--spammers",
            type=SHARE,
            default=0.0,
            show_default=True,
            help="Share of workers who answer at random.",
        ),
        click.option(
            "--habits",
            type=click.FloatRange(0, 1),
            default=0.0,
            show_default=True,
            help="Share of workers who favour a class when they do not know the answer.",
        ),
        click.option(
            "--skips",
            type=SHARE,
            default=0.0,
            show_default=True,
            help="Share of assigned tasks that workers skip.",
        ),
        click.option(
            "--repeats",
            type=SHARE,
            default=0.0,
            show_default=True,
            help="Share of assigned tasks that workers answer twice.",
        ),
        click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True),
    )(function)


@click.command(short_help="Let a simulated crowd work with the pipeline.")
@crowd_options
@click.option(
    "--policy",
    type=click.Choice(["uniform", "uncertainty", "escalate", "compare"]),
    help="Start an instance with this policy; compare: uniform and uncertainty, side by side.  "
    "[default: use the pipeline that is running]",
)
@click.option(
    "--algorithm",
    type=click.Choice(STREAMED),
    help=f"Of the instances that --policy starts.  [default: {default_algorithm(True)} for -1 and "
    f"1, {default_algorithm(False)} for names]",
)
@click.option(
    "--tiers",
    multiple=True,
    metavar="WORKERS:PRICE:ACCURACY",
    help="A tier of workers instead of --workers and --accuracy, the first to be asked first; "
    "repeated. For the policy escalate: the result is the error by what was spent.",
)
@click.option(
    "--class-prior",
    metavar="P,...",
    help="The frequency of each class, in order, such as 0.7,0.2,0.1.  [default: all equal]",
)
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("results"),
    show_default=True,
    help="Folder for the CSV and the PNG.",
)
@given_options("broker", "prefix", "classes", "scale", "ordered")
def command(
    given: Given,
    tasks: int,
    workers: int,
    labels_per_task: int,
    at_once: int,
    accuracy: tuple[float, float],
    think: float,
    drop_outs: float,
    spammers: float,
    skips: float,
    habits: float,
    repeats: float,
    seed: int,
    policy: Literal["uniform", "uncertainty", "escalate", "compare"] | None,
    algorithm: AlgorithmName | None,
    tiers: tuple[str, ...],
    class_prior: str | None,
    out: Path,
) -> None:
    """Let a simulated crowd work with the pipeline, through Kafka only, as real clients do.

    Workers request a task, think and answer, one after the other, until there are --tasks times
    --labels-per-task labels. The result is the error at each average number of labels per task, as
    a table, simulate.csv and simulate.png.

    By default the command uses the running pipeline of --prefix, which must have no open tasks, and
    the classes of that project. With --policy it starts an instance for the prefix PREFIX-POLICY
    (longer for other classes or an --algorithm), with Beta(A, B) as the prior of accuracies and the
    other settings from the environment; --class-prior only describes the crowd.

    \b
    Examples:
      sbic simulate --tasks 100 --workers 100
      sbic simulate --policy compare
      sbic simulate --policy uncertainty --algorithm settled
      sbic simulate --policy uncertainty --scale 1..5 --labels-per-task 6
      sbic simulate --policy compare --classes a,b,c --class-prior 0.7,0.2,0.1 --habits 0.3
      sbic simulate --policy escalate --tiers 10:0.01:0.65 --tiers 3:1:0.95
      sbic simulate --workers 300 --at-once 300 --think 1 --drop-outs 0.25 --spammers 0.2
    """
    if algorithm is not None and policy is None:
        raise click.UsageError("--algorithm needs --policy: a running pipeline has its own")
    parsed_tiers = tiers_of(tiers)
    if policy == "escalate" and not tiers:
        raise click.UsageError("--policy escalate needs --tiers: who is asked first?")
    if parsed_tiers:
        workers = sum(tier.workers for tier in parsed_tiers)
        labels_per_task = min(labels_per_task, workers)
    if labels_per_task > workers:
        raise BadInput(
            f"--labels-per-task {labels_per_task} is more than --workers {workers}: "
            "a worker answers each task at most once"
        )
    settings = in_project(given) if policy is None else own_settings(given, algorithm)
    if parsed_tiers and (policy or settings.policy) != "escalate":
        raise BadInput(
            f"--tiers are for the policy escalate, not {policy or settings.policy}: add --policy "
            "escalate, or run: "
            + command_line(settings, "project set policy=escalate stop_confidence=0.9")
        )
    crowd = Habits(Prior(*accuracy), think, spammers, drop_outs, skips, repeats, habits)
    plan = Plan(
        tasks=tasks,
        workers=workers,
        labels_per_task=labels_per_task,
        at_once=min(at_once, workers),
        habits=crowd,
        seed=seed,
        classes=settings.crowd_classes,
        class_prior=frequencies(settings, class_prior),
        tiers=parsed_tiers,
    )
    runs = carry_out(settings, policy, plan)
    for run in runs:
        tell(summary(run))
    present(plan, runs, out)


def tiers_of(texts: Sequence[str]) -> tuple[Tier, ...]:
    """Parse the tiers in the options; those that cannot be are a usage error."""
    if len(texts) > TIERS[-1]:
        raise click.UsageError(f"--tiers: there are at most {TIERS[-1]}, not {len(texts)}")
    try:
        return tuple(map(Tier.parse, texts))
    except ValueError as error:
        raise click.UsageError(f"--tiers {error}") from None
    except BadRecord as bad:
        raise click.UsageError(f"--tiers: {bad.message}") from None


def own_settings(given: Given, algorithm: AlgorithmName | None) -> Settings:
    """Get the settings of the instances that this command starts, completed by the environment."""
    try:
        named: dict[str, Any] = {} if algorithm is None else {"algorithm": algorithm}
        return replace(Settings.from_env(), **given.values, **named)
    except BadSetting as bad:
        raise click.UsageError(str(bad)) from None


def frequencies(settings: Settings, text: str | None) -> tuple[float, ...] | None:
    """Return the frequency of each class; None: all equal.

    >>> frequencies(Settings(classes="cat,dog"), "0.7,0.3")
    (0.7, 0.3)
    """
    if text is None or text == "uniform":
        return None
    try:
        found = replace(settings, algorithm="settled", class_prior=text).chosen_class_prior
        if isinstance(found, tuple):
            return found
    except BadSetting as bad:
        raise click.UsageError(f"--class-prior {bad.problem}") from None
    raise click.UsageError("--class-prior must be a number for each class here, not learned")


def carry_out(
    settings: Settings,
    policy: Literal["uniform", "uncertainty", "escalate", "compare"] | None,
    plan: Plan,
) -> "list[SimulationResult]":
    """Carry out the runs, with a progress bar."""
    # handled like Ctrl-C, which asyncio turns into a cancellation: the tasks are closed
    signal.signal(signal.SIGTERM, lambda *_: signal.raise_signal(signal.SIGINT))
    names: list[PolicyName] = []
    if policy is not None:
        names = ["uniform", "uncertainty"] if policy == "compare" else [policy]
    try:
        with progress("Answering", total=plan.labels * max(1, len(names))) as advance:
            if names:
                return run_connected(simulate_policies(settings, names, plan, advance))
            return [run_connected(simulate(settings, plan, advance))]
    except (TasksOfOthers, BadSetting) as error:
        raise BadInput(str(error)) from None
    except NoAnswer as error:
        raise click.ClickException(str(error)) from None


def summary(run: "SimulationResult") -> str:
    """Return the number of labels, the speed, and all other outcomes."""
    labels = run.came_to["labels"]
    high = quantiles(run.waits, n=100)[-1] if len(run.waits) > 1 else run.waits[0]
    text = (
        f"{run.policy}: {labels:,} labels in {run.seconds:.1f} s "
        f"({labels / run.seconds:,.0f} labels per second); from a request to its assignment "
        f"{median(run.waits) * 1000:.0f} ms (median), {high * 1000:.0f} ms (99th percentile)"
    )
    rest = [f"{name} {count:,}" for name, count in run.came_to.items() if name != "labels"]
    return printable("; ".join([text, *rest]))


def present(plan: Plan, runs: "Sequence[SimulationResult]", out: Path) -> None:
    """Print the table, and save it with its plot."""
    from sbic.research.outcome import (
        MissingResearchExtra,
        error_by_cost,
        error_by_labels,
        save_csv,
        save_png,
    )

    accuracy = plan.habits.accuracy
    of_classes = "" if plan.classes.is_signs else f" of {len(plan.classes)} classes"
    title = (
        f"Share of wrong predictions: {plan.tasks:,} tasks{of_classes}, {plan.workers:,} workers "
        f"with accuracies from Beta({accuracy.alpha:g}, {accuracy.beta:g}), {plan.at_once} at once"
    )
    if plan.tiers:
        of_tiers = (
            f"{tier.workers:,} right in {tier.accuracy:.0%} at {tier.price:g}"
            for tier in plan.tiers
        )
        title = f"Share of wrong predictions: {plan.tasks:,} tasks{of_classes}, workers by tier: "
        title += "; ".join(of_tiers)
    errors = {printable(str(run.policy)): run.error for run in runs}
    if plan.tiers:
        (one,) = runs
        outcome = error_by_cost("simulate", title, plan.tasks, one.costs, one.error)
    else:
        outcome = error_by_labels("simulate", title, plan.tasks, errors)
    click.echo(outcome.text)
    try:
        out.mkdir(parents=True, exist_ok=True)
        saved = [save_csv(outcome, out)]
        saved.append(save_png(outcome, out))
    except (BadFile, OSError) as error:
        raise BadInput(str(error)) from error
    except MissingResearchExtra as error:
        tell(error)
    tell(f"\nSaved {' and '.join(map(str, saved))}")
