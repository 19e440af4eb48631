"""`sbic tasks`: registers tasks, and closes and opens them."""

from typing import TYPE_CHECKING, Literal

import click

from pipeline.cli.errors import BadInput
from pipeline.cli.options import settings_options
from pipeline.settings import Settings

if TYPE_CHECKING:
    from pipeline.records.tasks import Description


@click.group("tasks", short_help="Register tasks; close and open them.")
def command() -> None:
    """Register tasks ahead of their first label, and close and open them.

    Any Kafka client can do the same with records on the tasks topic. A task that nobody has
    registered exists from its first label.
    """


@command.command("import", short_help="Register the tasks of a file.")
@click.argument("path", metavar="TASKS.csv")
@settings_options("broker", "prefix")
def import_tasks(settings: Settings, path: str) -> None:
    """Register the tasks of a file, with priors and gold; `-` is standard input.

    TASKS.csv has the column task, and may have prior (the probability of +1, between 0 and 1: say,
    the score of a model) and gold (the truth where it is known, 1 or -1). An empty field leaves a
    task as it is. Nothing is sent if anything in the file is wrong.

    \b
    Examples:
      sbic tasks import tasks.csv
      printf 'task,prior,gold\\nt1,0.3,\\nt2,,1\\n' | sbic tasks import -
    """
    from pipeline.cli.connected import run_connected
    from pipeline.files.errors import BadFile
    from pipeline.tools.describing import describe

    try:
        descriptions = descriptions_of(path)
    except BadFile as error:
        raise BadInput(str(error)) from None
    run_connected(describe(settings, descriptions))
    priors = sum("prior" in description for description in descriptions)
    gold = sum("gold" in description for description in descriptions)
    click.echo(
        f"tasks registered: {len(descriptions):,} ({priors:,} with a prior, {gold:,} gold)",
        err=True,
    )


def descriptions_of(path: str) -> list["Description"]:
    """Every row of the file; all of it is checked."""
    from pipeline.files.errors import BadFile
    from pipeline.files.source import read_source
    from pipeline.files.tasks import task_rows
    from pipeline.records.bad import BadRecord
    from pipeline.records.tasks import encode_task, parse_task

    source = read_source(path)
    found = []
    for line, (task, prior, gold) in task_rows(source):
        fields = {"task": task, "prior": prior, "gold": gold}
        description = {name: value for name, value in fields.items() if value is not None}
        try:
            found.append(parse_task(None, encode_task(description)))  # type: ignore[arg-type]
        except BadRecord as bad:
            raise BadFile(source.name, bad.message, line) from None
    if not found:
        raise BadFile(source.name, "has no tasks: nothing follows the header")
    return found


@command.command("close", short_help="Assign tasks no more.")
@click.argument("tasks", metavar="TASK...", nargs=-1, required=True)
@settings_options("broker", "prefix")
def close(settings: Settings, tasks: tuple[str, ...]) -> None:
    """Close tasks: they are assigned no more; labels that still arrive are counted.

    \b
    Examples:
      sbic tasks close t1 t2
    """
    set_status(settings, tasks, "closed")


@command.command("open", short_help="Register tasks, or reopen closed ones.")
@click.argument("tasks", metavar="TASK...", nargs=-1, required=True)
@settings_options("broker", "prefix")
def open_tasks(settings: Settings, tasks: tuple[str, ...]) -> None:
    """Open tasks: those nobody knew are registered, closed ones are reopened.

    A reopened task stays open, whatever the stop rules say, until it is closed by hand.

    \b
    Examples:
      sbic tasks open t1 t2
      sbic tasks reopen t1 t2
    """
    set_status(settings, tasks, "open")


command.add_command(open_tasks, "reopen")


def set_status(
    settings: Settings, tasks: tuple[str, ...], status: Literal["open", "closed"]
) -> None:
    """Send the status of tasks; nothing is sent if one of them cannot be a task."""
    from pipeline.cli.connected import run_connected
    from pipeline.records.bad import BadRecord
    from pipeline.records.tasks import encode_task, parse_task
    from pipeline.tools.describing import describe

    try:
        descriptions = [
            parse_task(None, encode_task({"task": task, "status": status})) for task in tasks
        ]
    except BadRecord as bad:
        raise BadInput(bad.message) from None
    run_connected(describe(settings, descriptions))
    click.echo(f"tasks {'opened' if status == 'open' else status}: {len(tasks):,}", err=True)
