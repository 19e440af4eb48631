"""`sbic experiment`: reproduces the tables and figures of the paper, and others like them."""

import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from sbic.commands import tell
from sbic.commands.options import BadInput, Function, in_order
from sbic.engine.compiled import IS_COMPILED
from sbic.files.tables import BadFile
from sbic.foreign import shown
from sbic.infer.registry import ALGORITHMS, ONLINE

if TYPE_CHECKING:
    from sbic.research.outcome import Finding


def run_options(jobs: int | None = None) -> Callable[[Function], Function]:
    """Return the options of all experiments: --out, --seed and --jobs (by default all cores)."""
    return in_order(
        click.option(
            "--out",
            type=click.Path(file_okay=False, path_type=Path),
            default=Path("results"),
            show_default=True,
            help="Folder for the CSV, the PNG and the results so far.",
        ),
        click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True),
        click.option(
            "--jobs",
            type=click.IntRange(min=1),
            default=jobs or os.cpu_count() or 1,
            show_default=True if jobs else "one for each core",
            help="Processes to run in.",
        ),
    )


def data_option(files: str, required: bool = True) -> Callable[[Function], Function]:
    """Return the folder of the real crowds: --data."""
    return click.option(
        "--data",
        type=click.Path(exists=True, file_okay=False, path_type=Path),
        envvar="SBIC_DATA",
        required=required,
        help=f"Folder with {files}.  [env: SBIC_DATA]",
    )


class AlgorithmNames(click.ParamType):
    """Names from `choices`, separated by commas."""

    name = "names"

    def __init__(self, choices: Iterable[str]) -> None:
        self._choices = tuple(choices)

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, ...]:
        """Return the names in the order given, or a usage error."""
        names = tuple(dict.fromkeys(name.strip() for name in str(value).split(",")))
        for name in names:
            if name not in self._choices:
                known = ", ".join(self._choices)
                self.fail(
                    f"there is no algorithm {shown(name)} here; choose from {known}", param, ctx
                )
        return names


def crowd_options(function: Function) -> Function:
    """Return the options of the simulated crowds: --algorithms, --tasks and --labels-per-worker."""
    return in_order(
        click.option(
            "--algorithms",
            type=AlgorithmNames(ONLINE),
            help=f"Comma-separated, of {', '.join(ONLINE)}; settled is at rest, settled-live is as "
            "labels arrive.",
        ),
        click.option("--tasks", type=click.IntRange(min=1), default=1000, show_default=True),
        click.option(
            "--labels-per-worker", type=click.IntRange(min=1), default=10, show_default=True
        ),
    )(function)


def check_crowd(tasks: int, labels_per_worker: int) -> None:
    """Refuse a crowd with more labels per worker than tasks."""
    if labels_per_worker > tasks:
        raise BadInput(
            f"--labels-per-worker {labels_per_worker} is more than --tasks {tasks}: "
            "a worker answers each task at most once"
        )


@click.group()
def command() -> None:
    """Reproduce a table or a figure of the paper, or compare the algorithms on other crowds.

    Each experiment writes a CSV and a PNG to --out and prints the numbers, beside the paper's if it
    has any. Intermediate results are saved: the same command continues a run that was
    stopped. The same --seed gives the same result, independent of --jobs.
    """


def present(make: Callable[[], "Finding"], out: Path) -> None:
    """Run an experiment, print its table and save its files."""
    from sbic.research.outcome import MissingResearchExtra, save_csv, save_png

    if not IS_COMPILED:
        tell("numba is not installed, so SBIC is slow: pip install numba")
    try:
        outcome = make()
        saved = [save_csv(outcome, out)]
        click.echo(outcome.text)
        saved.append(save_png(outcome, out))
    except BadFile as error:
        raise BadInput(str(error)) from error
    except MissingResearchExtra as error:
        tell(error)
    tell(f"\nSaved {' and '.join(map(str, saved))}")


@command.command(short_help="The error of the paper's algorithms on its real crowds.")
@data_option(
    "NAME.labels.csv and NAME.truth.csv for birds, ducks, rte, temp, trec (those it has are used)"
)
@click.option(
    "--shuffles",
    type=click.IntRange(min=1),
    default=100,
    show_default=True,
    help="Random orders for Fast and Sorted SBIC, seeds for MC.",
)
@run_options()
def table2(data: Path, shuffles: int, out: Path, seed: int, jobs: int) -> None:
    """Table 2: the error of the paper's algorithms on its real crowds.

    \b
    Example:
      sbic experiment table2 --data crowds --out results
    """

    def make() -> "Finding":
        from sbic.research.table2 import table2

        return table2(data, out, seed=seed, jobs=jobs, shuffles=shuffles)

    present(make, out)


@command.command(short_help="The error of every algorithm on all crowds of a folder.")
@data_option("NAME.labels.csv and NAME.truth.csv, of any names")
@click.option(
    "--algorithms",
    type=AlgorithmNames(ALGORITHMS),
    help="Comma-separated; `sbic infer --help` lists them.  [default: all]",
)
@click.option(
    "--shuffles",
    type=click.IntRange(min=1),
    default=20,
    show_default=True,
    help="Random orders for Fast and Sorted SBIC, seeds for MC.",
)
@run_options()
def crowds(
    data: Path,
    algorithms: tuple[str, ...] | None,
    shuffles: int,
    out: Path,
    seed: int,
    jobs: int,
) -> None:
    """Measure the error of every algorithm on all crowds of a folder.

    The crowds may have any classes; algorithms that need -1 and 1 are left out for other classes.

    \b
    Examples:
      sbic experiment crowds --data crowds
      sbic experiment crowds --data crowds --algorithms majority,dawid-skene
    """

    def make() -> "Finding":
        from sbic.research.real_crowds import crowds

        names = algorithms or tuple(ALGORITHMS)
        return crowds(data, out, algorithms=names, seed=seed, jobs=jobs, shuffles=shuffles)

    present(make, out)


@command.command(short_help="The error on simulated crowds as labels arrive.")
@click.option(
    "--policy",
    type=click.Choice(["uniform", "uncertainty"]),
    required=True,
    help="The same number of labels for every task, or the next label for the least certain.",
)
@click.option(
    "--arrival",
    type=click.Choice(["blocks", "interleaved"]),
    default="blocks",
    show_default=True,
    help="All labels of a worker in a row, or the workers in turns.",
)
@crowd_options
@click.option(
    "--max-labels",
    type=click.IntRange(min=1),
    default=80,
    show_default=True,
    help="Labels per task at the end.",
)
@click.option(
    "--runs",
    type=click.IntRange(min=1),
    help="Crowds for each algorithm.  [default: as many as take a few minutes, from 200 for "
    "the quickest to 1 for the slowest]",
)
@run_options()
def figure1(
    policy: str,
    arrival: str,
    algorithms: tuple[str, ...] | None,
    tasks: int,
    labels_per_worker: int,
    max_labels: int,
    runs: int | None,
    out: Path,
    seed: int,
    jobs: int,
) -> None:
    """Figure 1: the error of every algorithm on simulated crowds.

    With the defaults it takes about five minutes on two cores; with uncertainty most of that is
    spent on em, amf, kos and mc.

    \b
    Examples:
      sbic experiment figure1 --policy uniform
      sbic experiment figure1 --policy uncertainty --arrival interleaved
      sbic experiment figure1 --policy uncertainty --algorithms majority,fast-sbic --runs 1000
    """
    check_crowd(tasks, labels_per_worker)

    def make() -> "Finding":
        from sbic.research.figure1 import Setting, figure1

        setting = Setting(policy, arrival, tasks, labels_per_worker, max_labels)
        names = algorithms or ONLINE
        return figure1(setting, out, algorithms=names, runs=runs, seed=seed, jobs=jobs)

    present(make, out)


@command.command(short_help="The time of a run under the uncertainty policy.")
@crowd_options
@click.option(
    "--runs", type=click.IntRange(min=1), default=3, show_default=True, help="Runs per algorithm."
)
@run_options(jobs=1)
def figure3(
    algorithms: tuple[str, ...] | None,
    tasks: int,
    labels_per_worker: int,
    runs: int,
    out: Path,
    seed: int,
    jobs: int,
) -> None:
    """Figure 3: the time of a run under the uncertainty policy, and its ratio to MAJ's.

    EM is left out unless given, since it is the same code as AMF. Several --jobs are faster, but
    disturb each other's times: the default is 1. With the defaults it takes about three minutes.

    \b
    Example:
      sbic experiment figure3 --out results
    """
    check_crowd(tasks, labels_per_worker)

    def make() -> "Finding":
        from sbic.research.figure3 import TIMED, figure3

        return figure3(
            out,
            algorithms=algorithms or TIMED,
            tasks=tasks,
            labels_per_worker=labels_per_worker,
            runs=runs,
            seed=seed,
            jobs=jobs,
        )

    present(make, out)


@command.command(short_help="How many labels a stop rule saves on a real crowd.")
@data_option("NAME.labels.csv and NAME.truth.csv")
@click.option("--set", "name", metavar="NAME", default="rte", show_default=True)
@click.option(
    "--confidence",
    "confidences",
    type=click.FloatRange(0.5, 1, min_open=True, max_open=True),
    multiple=True,
    default=(0.9, 0.95, 0.99, 0.999),
    show_default=True,
    help="The confidence that closes a task; can be repeated.",
)
@click.option(
    "--runs",
    type=click.IntRange(min=1),
    default=100,
    show_default=True,
    help="Random orders of the labels.",
)
@run_options()
def stopping(
    data: Path,
    name: str,
    confidences: tuple[float, ...],
    runs: int,
    out: Path,
    seed: int,
    jobs: int,
) -> None:
    """How many labels a stop rule saves on a real crowd, and what it costs.

    The labels arrive in random order, and closed tasks get no more, as with SBIC_STOP_CONFIDENCE.
    For comparison, majority vote at the same cost: as many labels, evenly spread.

    \b
    Example:
      sbic experiment stopping --data crowds --confidence 0.99
    """

    def make() -> "Finding":
        from sbic.research.stopping import stopping

        return stopping(data, name, out, confidences=confidences, runs=runs, seed=seed, jobs=jobs)

    present(make, out)


@command.command(short_help="Expected against real error of the published confidence.")
@data_option("NAME.labels.csv and NAME.truth.csv", required=False)
@click.option(
    "--simulated", is_flag=True, help="Simulate crowds of independent workers instead of --data."
)
@click.option(
    "--draws",
    type=click.IntRange(min=1),
    help="Random choices of gold tasks (by default 10), or simulated crowds of each kind (8).",
)
@run_options()
def honesty(
    data: Path | None, simulated: bool, draws: int | None, out: Path, seed: int, jobs: int
) -> None:
    """Whether a confidence means what it says, on crowds whose truth is known.

    With 0, 50, 100 and 200 gold tasks: error, expected error, calibration error, log-loss,
    effective votes, what stop rules at 0.9 and 0.95 would do, and a reliability diagram. Then the
    same with three copies of the weakest worker added.

    With --simulated, workers who do not err together: the calibration error, and the error as
    labels arrive and at rest beside that of the majority, at 1 to 12 labels per task.

    \b
    Examples:
      sbic experiment honesty --data juries
      sbic experiment honesty --simulated
    """
    if data is None and not simulated:
        raise BadInput("give a folder of crowds with --data, or --simulated")

    def make() -> "Finding":
        from sbic.research.honesty import honesty
        from sbic.research.independent import independent

        if data is None or simulated:
            return independent(out, seeds=draws or 8, seed=seed, jobs=jobs)
        return honesty(data, out, draws=draws or 10, seed=seed, jobs=jobs)

    present(make, out)


@command.command(short_help="Cheap judges first, then people: the curve of cost against error.")
@data_option("NAME.labels.csv and NAME.truth.csv")
@click.option(
    "--price",
    type=click.FloatRange(min=0, min_open=True),
    default=10.0,
    show_default=True,
    help="What a person's answer costs; a judge's costs 1.",
)
@run_options()
def escalation(data: Path, price: float, out: Path, seed: int, jobs: int) -> None:
    """Show what it saves to ask judges first, and a person where they leave doubt.

    The judges of each crowd are tier 1, and the truth is a person of tier 2, with
    SBIC_POLICY=escalate, several SBIC_TIER_LABELS and SBIC_STOP_CONFIDENCE. The result is the cost
    and the error of each, beside those of all judges on all tasks.

    \b
    Examples:
      sbic experiment escalation --data juries
      sbic experiment escalation --data juries --price 50
    """

    def make() -> "Finding":
        from sbic.research.escalation import escalation

        return escalation(data, out, price=price, seed=seed, jobs=jobs)

    present(make, out)


@command.command(short_help="What an order of the classes is worth where crowds grade.")
@data_option("NAME.labels.csv and NAME.truth.csv, of grades", required=False)
@click.option("--simulated", is_flag=True, help="Simulate crowds that grade instead of --data.")
@click.option(
    "--draws",
    type=click.IntRange(min=1),
    default=5,
    show_default=True,
    help="Random choices of the labels of a task, or simulated crowds of each kind.",
)
@run_options()
def ratings(
    data: Path | None, simulated: bool, draws: int, out: Path, seed: int, jobs: int
) -> None:
    """Measure what an order of the classes is worth to settled, where crowds grade.

    With all labels and with 1 to 4 of each task: the error of the exact grade, the distance of the
    median from the truth, and the expected error by the real one, of majority, dawid-skene, and
    settled with and without an order.

    \b
    Examples:
      sbic experiment ratings --data ratings
      sbic experiment ratings --simulated
    """
    if data is None and not simulated:
        raise BadInput("give a folder of crowds with --data, or --simulated")

    def make() -> "Finding":
        from sbic.research.ratings import ratings

        return ratings(None if simulated else data, out, draws=draws, seed=seed, jobs=jobs)

    present(make, out)
