"""`sbic tasks`: registers, closes and opens tasks."""

from collections.abc import Iterable, Sequence
from typing import Literal, cast

import click

from sbic.classes import Classes
from sbic.commands import tell
from sbic.commands.options import (
    BadInput,
    given_options,
    in_project,
    of_project,
    reading_options,
    run_connected,
)
from sbic.files.labels import Reading
from sbic.files.tables import BadFile, listed
from sbic.files.tasks import task_table
from sbic.kafka.reader import reading
from sbic.kafka.writer import writing
from sbic.progress import progress
from sbic.project.revision import Given
from sbic.project.settings import Settings
from sbic.project.topics import Topics
from sbic.wire.bad import BadRecord
from sbic.wire.partitions import Row, partition_of
from sbic.wire.tasks import Description, encode_task, task_parser


async def unknown_tasks(settings: Settings, tasks: Iterable[str]) -> list[str]:
    """Those of the tasks that have no posterior and were never registered."""
    unknown = {task.encode(): task for task in tasks}
    topics = Topics(settings)
    for topic in (topics.posteriors, topics.tasks):
        if not unknown:
            break
        async with reading(settings, topic.name, from_start=True) as reader:
            reader.read_only(partition_of(key, settings.partitions) for key in unknown)
            async for records in reader.to_the_end("Looking for the tasks"):
                for record in records:
                    unknown.pop(record.key, None)
                if not unknown:
                    break
    return list(unknown.values())


# Registers and describes tasks: publishes to the tasks topic, keyed by task.


AT_ONCE = 5000


async def describe(settings: Settings, descriptions: Sequence[Description]) -> None:
    """Send all descriptions in order; they are acknowledged on return."""
    topic = Topics(settings).tasks
    async with writing(settings, topic) as writer:
        with progress("Sending", total=len(descriptions)) as advance:
            for start in range(0, len(descriptions), AT_ONCE):
                portion = descriptions[start : start + AT_ONCE]
                rows = [Row(each["task"].encode(), encode_task(each)) for each in portion]
                await writer.send(topic.name, rows)
                advance(len(rows))


@click.group("tasks", short_help="Register tasks; close and open them.")
def command() -> None:
    """Register tasks before their first label, and close and open them.

    Any Kafka client can do the same with records in the tasks topic. A task that was not registered
    exists from its first label on.
    """


@command.command("import", short_help="Register the tasks of a file.")
@click.argument("path", metavar="TASKS.csv")
@reading_options(
    "task", "prior", "gold", example="task=HITId,prior=score", classes=False, skip=False
)
@given_options("broker", "prefix", "classes", "scale", "ordered")
def import_tasks(given: Given, reading: Reading, path: str) -> None:
    """Register the tasks of a file, with priors and gold; `-` is standard input.

    TASKS.csv has the column task, and may have prior (the probability of +1, between 0 and 1, such
    as the score of a model) and gold (the truth if it is known, 1 or -1), in any order and any
    case, separated by commas, semicolons or tabs; or it is JSON Lines. gzip and UTF-16 are
    detected. An empty field leaves a task unchanged. Nothing is sent if anything in the file is
    wrong.

    If the classes of the project have names, gold is a name, and a prior has a probability of each
    class: in columns p:CLASS, or in JSON Lines as an object.

    \b
    Examples:
      sbic tasks import tasks.csv
      sbic tasks import batch.csv --columns task=HITId,gold=truth --positive yes --negative no
      sbic tasks import pets.csv --prefix pets
      printf 'task,prior,gold\\nt1,0.3,\\nt2,,1\\n' | sbic tasks import -
    """
    settings = in_project(given)
    try:
        descriptions, unread = descriptions_of(path, reading, settings.crowd_classes)
    except BadFile as error:
        raise BadInput(str(error)) from None
    if unread:
        tell(unread_note(unread))
    run_connected(describe(settings, descriptions))
    priors = sum("prior" in description for description in descriptions)
    gold = sum("gold" in description for description in descriptions)
    tell(
        f"tasks registered: {len(descriptions):,} ({priors:,} with a prior, {gold:,} gold)",
    )


def descriptions_of(
    path: str, reading: Reading, classes: Classes
) -> tuple[list[Description], list[str]]:
    """Return the descriptions in a file, checked, and the columns that were not read."""
    source = reading.source(path)
    table = task_table(source, of_project(reading, classes), classes.names)
    check = task_parser(classes)
    found = []
    for line, row in table.rows:
        fields = {name: value for name, value in row._asdict().items() if value is not None}
        if classes.are_grades and "gold" in fields:
            fields["gold"] = classes.label_named(fields["gold"])
        description = cast(Description, fields)
        try:
            check(None, encode_task(description))
        except BadRecord as bad:
            raise BadFile(source.name, bad.message, line) from None
        found.append(description)
    if not found:
        raise BadFile(source.name, "has no tasks: nothing follows the header")
    return found, list(table.unread)


def unread_note(columns: list[str]) -> str:
    """Return a warning about columns that were not read."""
    return (
        f"warning: columns that are not read: {listed(columns)}"
        " (only task, prior and gold are; --columns gold=NAME reads another one as gold)"
    )


create_option = click.option(
    "--create", is_flag=True, help="Accept unknown tasks, and create them."
)


@command.command("close", short_help="Stop assigning tasks.")
@click.argument("tasks", metavar="TASK...", nargs=-1, required=True)
@create_option
@given_options("broker", "prefix")
def close(given: Given, tasks: tuple[str, ...], create: bool) -> None:
    """Close tasks: they are no longer assigned; labels that still arrive are counted.

    If a task has no posterior and was never registered, the command names it, sends nothing, and
    exits with status 1.

    \b
    Examples:
      sbic tasks close t1 t2
      sbic tasks close not-yet-known --create
    """
    set_status(given, tasks, "closed", create)


@command.command("open", short_help="Reopen closed tasks, or register some.")
@click.argument("tasks", metavar="TASK...", nargs=-1, required=True)
@create_option
@given_options("broker", "prefix")
def open_tasks(given: Given, tasks: tuple[str, ...], create: bool) -> None:
    """Open tasks: reopen closed ones, and with --create register unknown ones.

    A reopened task stays open, regardless of the stop rules, until it is closed by hand. If a task
    has no posterior and was never registered, the command names it, sends nothing, and exits with
    status 1.

    \b
    Examples:
      sbic tasks open t1 t2
      sbic tasks reopen t1 t2
      sbic tasks open t3 t4 --create
    """
    set_status(given, tasks, "open", create)


command.add_command(open_tasks, "reopen")


def set_status(
    given: Given, tasks: tuple[str, ...], status: Literal["open", "closed"], create: bool
) -> None:
    """Send the status of tasks; nothing is sent if one of them is invalid or unknown."""
    settings = in_project(given)
    check = task_parser(settings.crowd_classes)
    descriptions: list[Description] = [{"task": task, "status": status} for task in tasks]
    try:
        for description in descriptions:
            check(None, encode_task(description))
    except BadRecord as bad:
        raise BadInput(bad.message) from None
    if not create and (unknown := run_connected(unknown_tasks(settings, tasks))):
        raise click.ClickException(unknown_note(unknown))
    run_connected(describe(settings, descriptions))
    tell(f"tasks {'opened' if status == 'open' else status}: {len(tasks):,}")


def unknown_note(tasks: list[str]) -> str:
    """Return the error for unknown tasks, and what to do.

    >>> unknown_note(["t7", "t8"])
    'no such task: t7, t8 (without a posterior, and never registered). Nothing was sent; add \
--create to create tasks'
    """
    return (
        f"no such task: {listed(tasks)} (without a posterior, and never registered). Nothing was "
        "sent; add --create to create tasks"
    )
