"""Runs the subcommands of `sbic`; errors become one line and an exit status."""

import gc
import io
import os
import sys
from collections.abc import Iterable
from difflib import get_close_matches
from errno import EPIPE
from importlib import import_module
from typing import Any, Never

import click

from sbic import __version__
from sbic.commands import tell

ELSEWHERE = (
    "SBIC_DATA",  # the folder of crowds that the tests read
    "SBIC_LABEL_STUDIO_TOKEN",  # `commands.push`
    "SBIC_LABEL_STUDIO_TOKEN_FILE",
    "SBIC_PHOENIX_TOKEN",  # `commands.push` and `commands.importing`
    "SBIC_PHOENIX_TOKEN_FILE",
    "SBIC_SINK",  # a target with a password: `commands.sink`
    "SBIC_SINK_FILE",
    "SBIC_RESTARTED",  # set by an instance that restarts itself: `runtime.faust.stop`
)


def misspelt(names: Iterable[str]) -> list[str]:
    """Return a line for each `SBIC_*` variable that is not known.

    >>> misspelt(["SBIC_ALPHAA", "SBIC_ALPHA", "SBIC_DATA", "HOME"])
    ['SBIC_ALPHAA is not read by anything: did you mean SBIC_ALPHA?']
    >>> misspelt(["SBIC_COLOUR"])
    ['SBIC_COLOUR is not read by anything: sbic run --help has all variables']
    """
    given = sorted(name for name in names if name.startswith("SBIC_"))
    if not given:
        return []  # the usual case, and `sbic --help` starts without loading the settings
    from sbic.gateway import config
    from sbic.project import security
    from sbic.project.settings import SPECS, variable

    known = [*map(variable, SPECS), *security.VARIABLES, *config.VARIABLES, *ELSEWHERE]
    lines = []
    for name in given:
        if name not in known:
            near = get_close_matches(name, known, n=1, cutoff=0.75)
            hint = f"did you mean {near[0]}?" if near else "sbic run --help has all variables"
            lines.append(f"{name} is not read by anything: {hint}")
    return lines


# Handles standard output that cannot be written: a closed pipe, or a full disk.


CLOSED_PIPE = 128 + 13  # as for a program that SIGPIPE ends


class OutputLost(Exception):
    """Standard output cannot be written.

    This is not an `OSError`: click and rich handle these themselves, and a broken connection to
    Kafka is one too.
    """

    def __init__(self, error: OSError) -> None:
        super().__init__(f"standard output cannot be written: {error.strerror}")
        self.is_closed_pipe = error.errno == EPIPE


class _CheckedOutput(io.FileIO):
    """Standard output; a failed write raises `OutputLost`."""

    def write(self, content: Any) -> int:
        try:
            return super().write(content)
        except OSError as error:
            raise OutputLost(error) from None


def check_output() -> None:
    """Make every failed write to standard output raise `OutputLost`."""
    if sys.stdout is None:  # closed by the caller: reserve its file descriptor
        os.open(os.devnull, os.O_RDONLY)
        number, encoding = 1, "utf-8"
    else:
        number, encoding = sys.stdout.fileno(), sys.stdout.encoding
    raw = _CheckedOutput(number, "wb", closefd=False)
    sys.stdout = io.TextIOWrapper(io.BufferedWriter(raw), encoding, line_buffering=raw.isatty())


def flush_output() -> None:
    """Write what is left, or raise `OutputLost`."""
    if sys.stdout is not None:
        sys.stdout.flush()


def end_without_output(lost: OutputLost) -> Never:
    """Exit with one line on standard error; without any if a pipe was closed."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)  # buffered output would fail again, with a traceback
    if lost.is_closed_pipe:
        sys.exit(CLOSED_PIPE)
    tell(f"sbic: {lost}")
    sys.exit(1)


COMMANDS = {  # the first sentence of each command's own help
    "demo": "See the whole pipeline at work on a simulated crowd.",
    "up": "Run a broker and the pipeline on this machine.",
    "broker": "Run a real Apache Kafka on this machine, for development, until Ctrl-C.",
    "topics": "Create a project: its topics and settings.",
    "run": "Run one instance of the pipeline: labels in, posteriors out; requests in, "
    "assignments out.",
    "gateway": "Serve HTTP: labels in, posteriors out, and a page to watch.",
    "project": "Show, change, recount, reset and delete projects.",
    "tasks": "Register tasks; close and open them.",
    "workers": "Block and name workers; say their groups, tiers and prices.",
    "replay": "Send the labels of a file to the pipeline.",
    "import": "Import the labels of another tool.",
    "simulate": "Let a simulated crowd work with the pipeline.",
    "status": "How the project is doing, on one screen.",
    "report": "How far judges can be trusted, and how many are really wrong.",
    "watch": "Show posteriors as they change.",
    "sink": "Keep tables of PostgreSQL or SQLite up to date.",
    "push": "Write posteriors into another tool.",
    "export": "Write the labels that stand, posteriors or workers.",
    "dead-letters": "Show dead letters, and replay them.",
    "infer": "Estimate every task of a file of labels.",
    "bounds": "How fast the error falls with the labels per task.",
    "sizing": "How many instances a rate of labels needs.",
    "experiment": "Reproduce a table or a figure of the paper, or compare the algorithms on "
    "other crowds.",
}

MODULES = {"import": "importing"}  # a Python keyword cannot be a module name
ALIASES = {"worker": "run"}  # an old name, not listed in the help

# Python's default is to look for reference cycles after every 700 new objects: a sixth of the time
# of a label, and a tenth of that to import an instance. With 100,000 a search takes 20 ms, and
# labels wait for it.
GARBAGE_THRESHOLDS = 20_000, 20, 50


class Commands(click.Group):
    """Imports `sbic.commands.NAME` only when NAME is used."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names in the order of the README."""
        return list(COMMANDS)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands without importing any."""
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return the command defined in the module of this name."""
        name = ALIASES.get(cmd_name, cmd_name)
        if name not in COMMANDS:
            return None
        module = MODULES.get(name, name.replace("-", "_"))
        command: click.Command = import_module(f"sbic.commands.{module}").command
        return command


@click.command(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="sbic")
def sbic() -> None:
    """Real-time truth from crowds, on Kafka."""


def main() -> Never:
    """Run `sbic` and exit; bad usage and bad input exit with status 2."""
    gc.set_threshold(*GARBAGE_THRESHOLDS)
    for line in misspelt(os.environ):
        tell(f"sbic: {line}")
    check_output()
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
        tell(f"{name}: {message}")
        return 2 if isinstance(error, click.UsageError) else error.exit_code
    except click.Abort:
        tell("sbic: interrupted")
        return 130
