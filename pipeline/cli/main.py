"""Runs the subcommands of `sbic`; errors become one line and an exit status."""

import gc
import os
import sys
from importlib import import_module
from typing import Never

import click

from pipeline import __version__
from pipeline.cli.misspelt import misspelt
from pipeline.cli.output import OutputLost, end_without_output, flush_output, guard_output

COMMANDS = (
    "demo",
    "up",
    "broker",
    "topics",
    "run",
    "gateway",
    "project",
    "tasks",
    "replay",
    "import",
    "simulate",
    "status",
    "watch",
    "export",
    "dead-letters",
    "infer",
    "bounds",
    "sizing",
    "experiment",
)

MODULES = {"import": "importing"}  # a Python keyword cannot be a module name
ALIASES = {"worker": "run"}  # an old name, not listed in the help

# Python's default is to look for reference cycles after every 700 new objects: a sixth of the time
# of a label, and a tenth of that to import an instance. With 100,000 a search takes 20 ms, and
# labels wait for it.
GARBAGE_THRESHOLDS = 20_000, 20, 50


class Commands(click.Group):
    """Imports `pipeline.cli.NAME` only when NAME is used."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The names in the order of the README."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command defined in the module of this name."""
        name = ALIASES.get(cmd_name, cmd_name)
        if name not in COMMANDS:
            return None
        module = MODULES.get(name, name.replace("-", "_"))
        command: click.Command = import_module(f"pipeline.cli.{module}").command
        return command


@click.command(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="sbic")
def sbic() -> None:
    """Real-time truth from crowds, on Kafka."""


def main() -> Never:
    """Run `sbic` and exit; bad usage and bad input exit with status 2."""
    gc.set_threshold(*GARBAGE_THRESHOLDS)
    for line in misspelt(os.environ):
        click.echo(f"sbic: {line}", err=True)
    guard_output()
    try:
        status = run()
        flush_output()
    except OutputLost as lost:
        end_without_output(lost)
    sys.exit(status)


def run() -> int:
    """Run the subcommand; prints an error in one line, and returns the exit status."""
    try:
        return int(sbic.main(prog_name="sbic", standalone_mode=False) or 0)
    except click.exceptions.NoArgsIsHelpError as help_text:
        click.echo(help_text.format_message())
        return 2
    except click.ClickException as error:
        where = getattr(error, "ctx", None)
        name = where.command_path if where else "sbic"
        message = " ".join(error.format_message().split())
        click.echo(f"{name}: {message}", err=True)
        return 2 if isinstance(error, click.UsageError) else error.exit_code
    except click.Abort:
        click.echo("sbic: interrupted", err=True)
        return 130
