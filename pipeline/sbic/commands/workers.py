"""`sbic workers`: what the owner says of workers: blocked or not, names, groups, tiers, prices."""

from collections.abc import Mapping
from typing import Any

import click

from sbic.commands import tell
from sbic.commands.options import (
    BadInput,
    given_options,
    in_project,
    reading_options,
    run_connected,
)
from sbic.files.labels import Reading
from sbic.files.roster import FIELDS, number, roster_table
from sbic.files.tables import BadFile, listed
from sbic.kafka.writer import writing
from sbic.progress import progress
from sbic.project.revision import Given
from sbic.project.settings import Settings
from sbic.project.topics import Topics
from sbic.status.roster import said_of
from sbic.wire.bad import BadRecord
from sbic.wire.partitions import Row
from sbic.wire.workers import TIERS, RosterEntry, encode_roster, parse_roster

AT_ONCE = 5000


async def change(
    settings: Settings, changes: Mapping[str, Mapping[str, Any]]
) -> dict[str, RosterEntry]:
    """Change what is said of workers; what is not changed stays. Acknowledged on return."""
    topic = Topics(settings).roster
    said = {
        worker: entry._replace(**changes[worker])
        for worker, entry in (await said_of(settings, changes, "Reading the roster")).items()
    }
    rows = [Row(worker.encode(), encode_roster(worker, entry)) for worker, entry in said.items()]
    async with writing(settings, topic) as writer:
        with progress("Sending", total=len(rows)) as advance:
            for start in range(0, len(rows), AT_ONCE):
                portion = rows[start : start + AT_ONCE]
                await writer.send(topic.name, portion)
                advance(len(portion))
    return said


@click.group("workers", short_help="Block and name workers; say their groups, tiers and prices.")
def command() -> None:
    """Block workers, name them, and say which err together, who is asked first, and what it costs.

    Any Kafka client can do the same with records in the roster topic.
    """


@command.command("import", short_help="Say what a file says of workers.")
@click.argument("path", metavar="ROSTER.csv")
@reading_options(
    *FIELDS, example="worker=judge,group=family", classes=False, skip=False, labels=False
)
@given_options("broker", "prefix")
def import_workers(given: Given, reading: Reading, path: str) -> None:
    """Say what a file says of workers; `-` is standard input.

    ROSTER.csv has the column worker, and may have group (a family of workers who err together),
    tier (1 to 9: who is asked first, with SBIC_POLICY=escalate), price (of each label), blocked
    (true or false) and name, in any order and any case, separated by commas, semicolons or tabs; or
    it is JSON Lines. gzip and UTF-16 are detected. An empty field leaves what is said of a worker
    as it is. Nothing is sent if anything in the file is wrong.

    \b
    Examples:
      sbic workers import roster.csv
      sbic workers import judges.csv --columns worker=model,group=family
      printf 'worker,tier,price\\nsmall,1,0.001\\nann,2,0.25\\n' | sbic workers import -
    """
    settings = in_project(given)
    try:
        table = roster_table(reading.source(path), reading)
        changes = {said.worker: said.changes for said in table.rows}
    except BadFile as error:
        raise BadInput(str(error)) from None
    if not changes:
        raise BadInput(f"{path}: has no workers: nothing follows the header")
    if table.unread:
        unread = listed([*table.unread])
        tell(
            f"warning: columns that are not read: {unread} (only {', '.join(FIELDS)} are; "
            "--columns group=NAME reads another one as group)",
        )
    said = run_connected(change(settings, changes)).values()
    tiers = sorted({entry.tier or 1 for entry in said})
    tell(
        f"workers said: {len(said):,} "
        f"({sum(entry.group is not None for entry in said):,} in "
        f"{len({entry.group for entry in said} - {None}):,} groups, "
        f"{sum(entry.price is not None for entry in said):,} with a price, "
        f"tiers {', '.join(map(str, tiers))})",
    )


@command.command("set", short_help="Say something of workers, or name one.")
@click.argument("workers", metavar="WORKER...", nargs=-1, required=True)
@click.option("--blocked", "blocked", flag_value="true", help="No assignments from now on.")
@click.option(
    "--unblocked", "blocked", flag_value="false", help="Assignments, whatever the rule says."
)
@click.option("--by-rule", "blocked", flag_value="none", help="SBIC_BLOCK_BELOW decides.")
@click.option("--name", help="What people see beside the id; empty for none. For one worker.")
@click.option("--group", help="The family of workers with whom they err together; empty for none.")
@click.option(
    "--tier",
    metavar=f"{TIERS[0]}-{TIERS[-1]}",
    help="1 is asked first, with SBIC_POLICY=escalate; empty for 1.",
)
@click.option("--price", metavar="MONEY", help="Of each label; empty for 0.")
@given_options("broker", "prefix")
def set_workers(
    given: Given,
    workers: tuple[str, ...],
    blocked: str | None,
    **said: str | None,
) -> None:
    """Block workers, unblock them, let the rule decide again, or say group, tier, price or name.

    A blocked worker gets no assignments, and labels that still arrive are counted. What is not
    given stays as it is.

    \b
    Examples:
      sbic workers set ann --blocked
      sbic workers set bob carl --unblocked
      sbic workers set ann --by-rule --name "Ann Smith"
      sbic workers set zephyr-7b openchat --group mistral --price 0.0004
      sbic workers set ann bob --tier 2 --price 0.25
    """
    changes: dict[str, Any] = {name: text for name, text in said.items() if text is not None}
    if blocked is None and not changes:
        raise BadInput(
            "nothing to change: give --blocked, --unblocked, --by-rule, --name, --group, --tier "
            "or --price"
        )
    if "name" in changes and len(workers) > 1:
        raise BadInput("--name is for one worker: name the others with commands of their own")
    changes = {name: text or None for name, text in changes.items()}
    changes |= {
        name: number(changes[name]) for name in ("tier", "price") if changes.get(name) is not None
    }
    if blocked is not None:
        changes["blocked"] = {"true": True, "false": False, "none": None}[blocked]
    try:
        for worker in workers:
            _, entry = parse_roster(None, {"worker": worker, **changes})
    except BadRecord as bad:
        raise BadInput(bad.message) from None
    changes = {name: getattr(entry, name) for name in changes}
    said_now = run_connected(change(in_project(given), dict.fromkeys(workers, changes)))
    for worker, entry in said_now.items():
        tell(f"{worker}: {in_words(entry)}")


def in_words(entry: RosterEntry) -> str:
    """Return what the roster says of a worker, in words.

    >>> in_words(RosterEntry(True)), in_words(RosterEntry(name="Ann", tier=2, price=0.5))
    ('blocked', 'by the rule, named Ann, tier 2, price 0.5')
    """
    words = [{True: "blocked", False: "unblocked", None: "by the rule"}[entry.blocked]]
    if entry.name is not None:
        words.append(f"named {entry.name}")
    if entry.group is not None:
        words.append(f"of the group {entry.group}")
    if entry.tier is not None:
        words.append(f"tier {entry.tier}")
    if entry.price is not None:
        words.append(f"price {entry.price:g}")
    return ", ".join(words)
