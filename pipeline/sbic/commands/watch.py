"""`sbic watch`: shows posteriors as they change."""

import signal

import click
from rich.console import Console

from sbic.commands.options import given_options, in_project, run_connected
from sbic.project.added import while_none_are_added
from sbic.project.revision import Given
from sbic.status.watch import watch_as_json, watch_as_table


@click.command(short_help="Show posteriors as they change.")
@click.option("--from-start", is_flag=True, help="Begin with the existing posteriors.")
@given_options("broker", "prefix")
def command(given: Given, from_start: bool) -> None:
    """Show posteriors as they change, until Ctrl-C.

    In a terminal it is a table of the tasks that changed last, with the probability of +1, or with
    the most probable class and its probability if classes have names. In a file or a pipe it is one
    line of JSON for each change, the record as it is in the topic.

    \b
    Examples:
      sbic watch
      sbic watch --from-start > posteriors.jsonl
      sbic watch | jq 'select(.labels >= 10) | .task'
      sbic watch --prefix pets | jq 'select(.prediction == "cat") | .confidence'
    """
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    console = Console()
    try:
        settings = in_project(given)
        if console.is_terminal:
            work = watch_as_table(settings, from_start, console)
        else:
            out = click.get_binary_stream("stdout")
            work = watch_as_json(settings, from_start, out)
        run_connected(while_none_are_added(settings, work))
    except KeyboardInterrupt:
        return
