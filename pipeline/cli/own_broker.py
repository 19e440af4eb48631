"""The embedded broker of a command: its options, and its errors in one line."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from pipeline.cli.errors import BadInput
from pipeline.cli.options import Function, in_order

if TYPE_CHECKING:
    from pipeline.local.embedded import EmbeddedBroker
    from pipeline.local.secure import SecureFolder


def broker_options(function: Function) -> Function:
    """The options of the broker: its port, and its data folder."""
    return in_order(
        click.option(
            "--port",
            type=click.IntRange(1, 65535),
            default=9092,
            show_default=True,
            help="Port of the broker.",
        ),
        click.option(
            "--data-dir",
            type=click.Path(path_type=Path, file_okay=False),
            help="Folder for Kafka's data, kept between runs.  [default: a per-user data folder]",
        ),
        click.option("--ephemeral", is_flag=True, help="Keep nothing: a temporary folder."),
    )(function)


def folder_for(data_dir: Path | None, ephemeral: bool) -> Path | None:
    """The folder for Kafka's data; None if nothing is kept."""
    from pipeline.local.folder import default_folder

    if ephemeral and data_dir:
        raise BadInput("--ephemeral keeps nothing: leave out --data-dir")
    return None if ephemeral else data_dir or default_folder()


def what_is_kept(folder: Path | None) -> str:
    """What is kept, in words."""
    return f"data in {folder}" if folder else "nothing is kept"


@contextmanager
def own_broker(
    port: int = 0, folder: Path | None = None, secure: "SecureFolder | None" = None
) -> "Iterator[EmbeddedBroker]":
    """A broker while the block runs; Ctrl-C, SIGTERM and SIGHUP stop both gracefully."""
    from pipeline.local.embedded import EmbeddedBroker
    from pipeline.local.errors import BadChoice, CannotStart

    for terminal_gone_or_stop in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(terminal_gone_or_stop, signal.default_int_handler)
    try:
        with EmbeddedBroker(port, folder, secure=secure) as broker:
            yield broker
    except BadChoice as error:
        raise BadInput(str(error)) from None
    except CannotStart as error:
        if error.log:
            click.echo(error.log, err=True)
        raise click.ClickException(str(error)) from None
