"""Options that the experiments share."""

import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import click

from pipeline.cli.errors import BadInput
from pipeline.cli.options import Function, in_order
from pipeline.foreign import shown
from pipeline.inference.registry import ONLINE


def run_options(jobs: int | None = None) -> Callable[[Function], Function]:
    """The options of all experiments: --out, --seed and --jobs (by default all cores)."""
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


def data_option(files: str) -> Callable[[Function], Function]:
    """The folder of the real crowds: --data."""
    return click.option(
        "--data",
        type=click.Path(exists=True, file_okay=False, path_type=Path),
        envvar="SBIC_DATA",
        required=True,
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
        """The names in the order given, or a usage error."""
        names = tuple(dict.fromkeys(name.strip() for name in str(value).split(",")))
        for name in names:
            if name not in self._choices:
                known = ", ".join(self._choices)
                self.fail(
                    f"there is no algorithm {shown(name)} here; choose from {known}", param, ctx
                )
        return names


def crowd_options(function: Function) -> Function:
    """The options of the simulated crowds: --algorithms, --tasks and --labels-per-worker."""
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
