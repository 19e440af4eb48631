"""`sbic simulate`: lets a simulated crowd work with the pipeline."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import click

from pipeline.cli.errors import BadInput
from pipeline.cli.options import given_options
from pipeline.cli.simulate_options import crowd_options
from pipeline.inference.registry import STREAMED, AlgorithmName, default_algorithm
from pipeline.project.given import Given
from pipeline.settings import BadSetting, Settings

if TYPE_CHECKING:
    from pipeline.simulation.crowd_at_work import Plan
    from pipeline.simulation.simulate import Run


@click.command(short_help="Let a simulated crowd work with the pipeline.")
@crowd_options
@click.option(
    "--policy",
    type=click.Choice(["uniform", "uncertainty", "compare"]),
    help="Start an instance with this policy; compare: one for each, side by side.  "
    "[default: use the pipeline that is running]",
)
@click.option(
    "--algorithm",
    type=click.Choice(STREAMED),
    help=f"Of the instances that --policy starts.  [default: {default_algorithm(True)} for -1 and "
    f"1, {default_algorithm(False)} for names]",
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
@given_options("broker", "prefix", "classes")
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
    policy: Literal["uniform", "uncertainty", "compare"] | None,
    algorithm: AlgorithmName | None,
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
      sbic simulate --policy compare --classes a,b,c --class-prior 0.7,0.2,0.1 --habits 0.3
      sbic simulate --workers 300 --at-once 300 --think 1 --drop-outs 0.25 --spammers 0.2
    """
    from pipeline.cli.connected import in_project
    from pipeline.inference.algorithm import Prior
    from pipeline.simulation.crowd_at_work import Plan
    from pipeline.simulation.workers import Habits

    if algorithm is not None and policy is None:
        raise click.UsageError("--algorithm needs --policy: a running pipeline has its own")
    if labels_per_task > workers:
        raise BadInput(
            f"--labels-per-task {labels_per_task} is more than --workers {workers}: "
            "a worker answers each task at most once"
        )
    settings = in_project(given) if policy is None else own_settings(given, algorithm)
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
    )
    runs = carry_out(settings, policy, plan)
    for run in runs:
        click.echo(summary(run), err=True)
    present(plan, runs, out)


def own_settings(given: Given, algorithm: AlgorithmName | None) -> Settings:
    """The settings of the instances that this command starts, completed by the environment."""
    try:
        named: dict[str, Any] = {} if algorithm is None else {"algorithm": algorithm}
        return replace(Settings.from_env(), **given.values, **named)
    except BadSetting as bad:
        raise click.UsageError(str(bad)) from None


def frequencies(settings: Settings, text: str | None) -> tuple[float, ...] | None:
    """The frequency of each class; None: all equal.

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
    policy: Literal["uniform", "uncertainty", "compare"] | None,
    plan: "Plan",
) -> "list[Run]":
    """Carry out the runs, with a progress bar."""
    import signal

    from pipeline.cli.connected import run_connected
    from pipeline.kafka.asking import NoAnswer
    from pipeline.progress import progress
    from pipeline.simulation.policies_compared import Policy, simulate_policies
    from pipeline.simulation.simulate import TasksOfOthers, simulate

    # handled like Ctrl-C, which asyncio turns into a cancellation: the tasks are closed
    signal.signal(signal.SIGTERM, lambda *_: signal.raise_signal(signal.SIGINT))
    names: list[Policy] = []
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


def summary(run: "Run") -> str:
    """The number of labels, the speed, and all other outcomes."""
    from statistics import median, quantiles

    labels = run.came_to["labels"]
    high = quantiles(run.waits, n=100)[-1] if len(run.waits) > 1 else run.waits[0]
    text = (
        f"{run.policy}: {labels:,} labels in {run.seconds:.1f} s "
        f"({labels / run.seconds:,.0f} labels per second); from a request to its assignment "
        f"{median(run.waits) * 1000:.0f} ms (median), {high * 1000:.0f} ms (99th percentile)"
    )
    rest = [f"{name} {count:,}" for name, count in run.came_to.items() if name != "labels"]
    return "; ".join([text, *rest])


def present(plan: "Plan", runs: "Sequence[Run]", out: Path) -> None:
    """Print the table, and save it with its plot."""
    from pipeline.experiments.error_by_labels import error_by_labels
    from pipeline.experiments.outcome import MissingExtra, save_csv, save_png
    from pipeline.files.errors import BadFile

    accuracy = plan.habits.accuracy
    of_classes = "" if plan.classes.is_signs else f" of {len(plan.classes)} classes"
    title = (
        f"Share of wrong predictions: {plan.tasks:,} tasks{of_classes}, {plan.workers:,} workers "
        f"with accuracies from Beta({accuracy.alpha:g}, {accuracy.beta:g}), {plan.at_once} at once"
    )
    errors = {str(run.policy): run.error for run in runs}
    outcome = error_by_labels("simulate", title, plan.tasks, errors)
    click.echo(outcome.text)
    try:
        out.mkdir(parents=True, exist_ok=True)
        saved = [save_csv(outcome, out)]
        saved.append(save_png(outcome, out))
    except (BadFile, OSError) as error:
        raise BadInput(str(error)) from error
    except MissingExtra as error:
        click.echo(str(error), err=True)
    click.echo(f"\nSaved {' and '.join(map(str, saved))}", err=True)
