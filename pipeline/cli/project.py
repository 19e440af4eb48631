"""`sbic project`: shows the settings of projects, and changes them."""

from typing import TYPE_CHECKING

import click

from pipeline.cli.options import given_options
from pipeline.cli.project_recount import (
    ask_if_expired,
    complete,
    delete,
    labels_in,
    note,
    recount,
    reset,
)
from pipeline.project.given import Given

if TYPE_CHECKING:
    from pipeline.project.revision import Revision


@click.group("project", short_help="Show, change, recount, reset and delete projects.")
def command() -> None:
    """Show the settings of a project, and change them.

    A project gets its settings when it is created, by `sbic topics` or the first start of an
    instance: partitions, classes, algorithm, alpha, beta, prior and others. Instances and tools use
    these settings, and refuse to run if they are given others.

    \b
    Examples:
      sbic project list
      sbic project show --prefix birds
      sbic project set --prefix birds policy=uniform
      sbic project set --prefix birds alpha=3 --recount
    """


@command.command(short_help="Show the settings of a project.")
@given_options("broker", "prefix")
def show(given: Given) -> None:
    """Show the settings of a project, its state, and how many labels it has.

    \b
    Examples:
      sbic project show
      sbic project show --prefix birds
    """
    from pipeline.cli.connected import run_connected
    from pipeline.project.opening import check_topic_ids
    from pipeline.project.recreation import existing_project

    place = given.place
    revision = run_connected(existing_project(place))
    labels = labels_in(place)
    click.echo(f"{place.prefix}: {revision.state}, revision {revision.number}, {labels:,} labels")
    for name, value in revision.settings.items():
        click.echo(f"{name:<23} {'-' if value is None else value}")
    if revision.state == "ready":
        run_connected(check_topic_ids(place, revision))


@command.command("set", short_help="Change settings of a project.")
@click.argument("values", metavar="NAME=VALUE...", nargs=-1, required=True)
@click.option("--recount", "may_recount", is_flag=True, help="Count all labels again, if needed.")
@click.option("--yes", is_flag=True, help="With --recount: do not ask if labels have expired.")
@given_options("broker", "prefix")
def set_values(given: Given, values: tuple[str, ...], may_recount: bool, yes: bool) -> None:
    """Change settings of a project; running instances restart with them.

    policy, seed, lease_seconds, settle_tolerance and the retention of topics change at once.
    classes, algorithm, alpha, beta, prior, class_prior and repeats change the results of existing
    labels: if there are any, --recount is needed. If a project has labels, class names can only be
    added at the end. The number of partitions cannot be changed.

    \b
    Examples:
      sbic project set policy=uniform lease_seconds=120
      sbic project set --prefix pets classes=cat,dog,bird
      sbic project set --prefix birds alpha=3 beta=2 --recount
    """
    from pipeline.cli.connected import run_connected
    from pipeline.kafka.admin import alter_topics
    from pipeline.project.changes import change, read_assignments
    from pipeline.project.errors import Unfinished
    from pipeline.project.log import append
    from pipeline.project.recreation import begin, existing_project

    place = given.place

    async def publish_change() -> "Revision | None":
        """The revision that begins a recount, if one is needed."""
        texts = read_assignments(values)
        revision = await existing_project(place)
        if revision.state != "ready":
            raise Unfinished(place.prefix, revision.state)
        changed = change(revision, texts, has_labels=labels > 0)
        if not changed.names:
            note("nothing changes: the project already has these settings")
            return None
        if changed.needs_recount:
            if labels and not may_recount:
                raise click.ClickException(needs_recount(place.prefix, changed.names, labels))
            return await begin(place, "recounting", settings=changed.settings)
        after = revision.next(settings=changed.settings)
        await alter_topics(after.apply_to(place))
        await append(place, after)
        note(f"changed: {', '.join(changed.names)}; running instances restart with that")
        return None

    labels = labels_in(place)
    if may_recount:
        ask_if_expired(place, yes)
    if run_connected(publish_change()):
        complete(place)


def needs_recount(prefix: str, names: tuple[str, ...], labels: int) -> str:
    """Why a change is not made, and how to make it.

    >>> needs_recount("birds", ("alpha",), 1200)
    'alpha changes the results of the 1,200 labels of birds: add --recount to count them all \
again; nothing was changed'
    """
    verb = "changes" if len(names) == 1 else "change"
    return (
        f"{', '.join(names)} {verb} the results of the {labels:,} labels of {prefix}: add "
        "--recount to count them all again; nothing was changed"
    )


for each in (recount, reset, delete):
    command.add_command(each)


@command.command("list", short_help="List the projects on a broker.")
@given_options("broker")
def list_projects(given: Given) -> None:
    """List the projects on a broker: labels, classes and algorithm of each.

    \b
    Examples:
      sbic project list
      sbic project list --broker kafka://one:9092
    """
    from pipeline.cli.connected import run_connected
    from pipeline.project.listing import projects

    found = run_connected(projects(given.place))
    if not found:
        note("there is no project on this broker; create one with: sbic topics --prefix NAME")
        return
    rows = [("project", "labels", "algorithm", "classes", "state")]
    for prefix, revision, labels in found:
        algorithm, classes = revision.settings["algorithm"], revision.settings["classes"]
        rows.append((prefix, f"{labels:,}", algorithm, classes, revision.state))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = (f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True))
        click.echo("  ".join(cells).rstrip())
