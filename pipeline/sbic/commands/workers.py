"""`sbic workers`: blocks, unblocks and names workers."""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any

import click

from sbic.commands import tell
from sbic.commands.options import BadInput, given_options, in_project, run_connected
from sbic.kafka.reader import reading
from sbic.kafka.writer import writing
from sbic.project.revision import Given
from sbic.project.settings import Settings
from sbic.project.topics import Topics
from sbic.wire.bad import BadRecord
from sbic.wire.partitions import Row, partition_of
from sbic.wire.workers import NOTHING_SAID, RosterEntry, encode_roster, parse_roster


async def said_of(settings: Settings, workers: Iterable[str]) -> dict[str, RosterEntry]:
    """Return what the roster says of these workers now, in records of their own partitions."""
    found = dict.fromkeys(workers, NOTHING_SAID)
    homes = {worker: partition_of(worker.encode(), settings.partitions) for worker in found}
    async with reading(settings, Topics(settings).roster.name, from_start=True) as reader:
        reader.read_only(homes.values())
        async for records in reader.to_the_end("Reading the roster"):
            for record in records:
                with suppress(BadRecord):  # a dead letter
                    worker, entry = parse_roster(record.key, record.value)
                    if homes.get(worker) == record.partition:
                        found[worker] = entry
    return found


async def change(
    settings: Settings, workers: Sequence[str], changes: Mapping[str, Any]
) -> dict[str, RosterEntry]:
    """Change what is said of workers; what is not changed stays. Acknowledged on return."""
    topic = Topics(settings).roster
    said = {
        worker: entry._replace(**changes)
        for worker, entry in (await said_of(settings, workers)).items()
    }
    rows = [Row(worker.encode(), encode_roster(worker, entry)) for worker, entry in said.items()]
    async with writing(settings, topic) as writer:
        await writer.send(topic.name, rows)
    return said


@click.group("workers", short_help="Block workers, unblock them, and name them.")
def command() -> None:
    """Block workers, unblock them, and name them.

    Any Kafka client can do the same with records in the roster topic.
    """


@command.command("set", short_help="Block workers, unblock them, or name one.")
@click.argument("workers", metavar="WORKER...", nargs=-1, required=True)
@click.option("--blocked", "blocked", flag_value="true", help="No assignments from now on.")
@click.option(
    "--unblocked", "blocked", flag_value="false", help="Assignments, whatever the rule says."
)
@click.option("--by-rule", "blocked", flag_value="none", help="SBIC_BLOCK_BELOW decides.")
@click.option("--name", help="What people see beside the id; empty for none. For one worker.")
@given_options("broker", "prefix")
def set_workers(
    given: Given, workers: tuple[str, ...], blocked: str | None, name: str | None
) -> None:
    """Block workers, unblock them, let the rule decide again, or name one.

    A blocked worker gets no assignments, and labels that still arrive are counted. What is not
    given stays as it is.

    \b
    Examples:
      sbic workers set ann --blocked
      sbic workers set bob carl --unblocked
      sbic workers set ann --by-rule --name "Ann Smith"
    """
    if blocked is None and name is None:
        raise BadInput("nothing to change: give --blocked, --unblocked, --by-rule or --name")
    if name is not None and len(workers) > 1:
        raise BadInput("--name is for one worker: name the others with commands of their own")
    changes: dict[str, Any] = {}
    if blocked is not None:
        changes["blocked"] = {"true": True, "false": False, "none": None}[blocked]
    if name is not None:
        changes["name"] = name or None
    try:
        for worker in workers:
            parse_roster(None, encode_roster(worker, NOTHING_SAID._replace(**changes)))
    except BadRecord as bad:
        raise BadInput(bad.message) from None
    said = run_connected(change(in_project(given), workers, changes))
    for worker, entry in said.items():
        tell(f"{worker}: {in_words(entry)}")


def in_words(entry: RosterEntry) -> str:
    """Return what the roster says of a worker, in words.

    >>> in_words(RosterEntry(True)), in_words(RosterEntry(name="Ann"))
    ('blocked', 'by the rule, named Ann')
    """
    word = {True: "blocked", False: "unblocked", None: "by the rule"}[entry.blocked]
    return word if entry.name is None else f"{word}, named {entry.name}"
