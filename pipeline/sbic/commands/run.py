"""`sbic run`: runs one instance of the pipeline."""

import os
import signal

import click

from sbic.commands.options import given_options, run_connected
from sbic.project.revision import Given
from sbic.project.settings import SPECS

LOGGING = ("log_level", "log_format")


@click.command("run")
@given_options(*SPECS)
def command(given: Given) -> None:
    """Run one instance of the pipeline: labels in, posteriors out; requests in, assignments out.

    Start more of them, on this machine or others, to share the partitions, up to the number of
    partitions. The first one creates the project: its topics and its settings, which the others
    use (see `sbic project --help`). SIGTERM stops it gracefully (exit status 0); after an
    unexpected error (70) nothing is lost, and the next start recovers.

    \b
    Examples:
      sbic run
      sbic run --broker kafka://one:9092,two:9092 --prefix birds
      SBIC_REPEATS=last sbic run --web-port 6067
      sbic run --policy uniform --lease-seconds 120 --stop-labels 5
    """
    for ending in signal.SIGTERM, signal.SIGINT:  # exit at once while there is nothing to finish
        signal.signal(ending, lambda *_: os._exit(0))

    from sbic.runtime.faust.stop import RESTARTED, CannotStart
    from sbic.runtime.logs import set_up_logging
    from sbic.runtime.process import opened_when_allowed, opened_when_ready, run

    level, style = (given.values.get(name, SPECS[name].default) for name in LOGGING)
    set_up_logging(level, style)
    was_running = os.environ.pop(RESTARTED, None) is not None
    opening = opened_when_allowed if was_running else opened_when_ready
    try:
        opened = run_connected(opening(given))
    except CannotStart as error:
        raise click.ClickException(str(error)) from None
    run(opened)
