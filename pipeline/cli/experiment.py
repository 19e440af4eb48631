"""`sbic experiment`: the tables and figures of the paper."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from pipeline.cli.errors import BadInput

if TYPE_CHECKING:
    from pipeline.experiments.outcome import Outcome


@click.group()
def command() -> None:
    """Reproduce a table or a figure of the paper.

    Each writes a CSV and a PNG to --out and prints the numbers, with the paper's beside them where
    the paper has numbers. Results are saved as they come: a run that was stopped goes on where it
    was when the same command is given again. The same --seed gives the same result, whatever
    --jobs is.
    """


def run_options(function: Callable[..., None]) -> Callable[..., None]:
    """The options that all experiments share: --out, --seed and --jobs."""
    options = (
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
            default=os.cpu_count() or 1,
            show_default="one for each core",
            help="Processes to run in.",
        ),
    )
    for option in reversed(options):
        function = option(function)
    return function


def present(make: Callable[[], "Outcome"], out: Path) -> None:
    """Run an experiment, print its table and save its files."""
    from pipeline.experiments.outcome import EXTRA, MissingExtra, save_csv, save_png
    from pipeline.files.errors import BadFile
    from pipeline.inference.compiled import IS_COMPILED

    if not IS_COMPILED:
        click.echo(f"numba is not installed, so SBIC is slow: {EXTRA}", err=True)
    try:
        outcome = make()
        saved = [save_csv(outcome, out)]
        click.echo(outcome.text)
        saved.append(save_png(outcome, out))
    except BadFile as error:
        raise BadInput(str(error)) from error
    except MissingExtra as error:
        click.echo(str(error), err=True)
    click.echo(f"\nSaved {' and '.join(map(str, saved))}", err=True)


@command.command(short_help="The error of every algorithm on real crowds.")
@click.option(
    "--data",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    envvar="SBIC_DATA",
    required=True,
    help="Folder with NAME.labels.csv and NAME.truth.csv for birds, ducks, rte, temp, trec "
    "(those it has are used).  [env: SBIC_DATA]",
)
@click.option(
    "--shuffles",
    type=click.IntRange(min=1),
    default=100,
    show_default=True,
    help="Random orders for Fast and Sorted SBIC, seeds for MC.",
)
@run_options
def table2(data: Path, shuffles: int, out: Path, seed: int, jobs: int) -> None:
    """Table 2: the error of every algorithm on real crowds.

    \b
    Example:
      sbic experiment table2 --data crowds --out results
    """

    def make() -> "Outcome":
        from pipeline.experiments.table2 import table2

        return table2(data, out, seed=seed, jobs=jobs, shuffles=shuffles)

    present(make, out)
