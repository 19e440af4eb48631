"""`sbic project`: what a project is, and how to change it."""

from typing import TYPE_CHECKING

import click

from pipeline.cli.options import given_options
from pipeline.project.given import Given
from pipeline.settings import Settings

if TYPE_CHECKING:
    from pipeline.project.revision import Revision

EXPECTED_SECONDS = 15.0  # for instances that were there before, and start anew
NOT_EXPECTED_SECONDS = 5.0


@click.group("project", short_help="Show, change, recount, reset and delete projects.")
def command() -> None:
    """Show what a project is, and change it.

    A project has its settings from when it was created (by `sbic topics`, or the first start of an
    instance): partitions, classes, algorithm, alpha, beta, prior and the like. Instances and tools
    take them from there, and one that is given others is refused.

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
@click.option("--recount", is_flag=True, help="Count all labels anew, where that is needed.")
@click.option("--yes", is_flag=True, help="With --recount: do not ask, though labels have expired.")
@given_options("broker", "prefix")
def set_values(given: Given, values: tuple[str, ...], recount: bool, yes: bool) -> None:
    """Change settings of a project; instances that run start anew with them.

    At once: policy, seed, lease_seconds, settle_tolerance and how long topics are kept. What labels
    come to depends on classes, algorithm, alpha, beta, prior, class_prior and repeats: with labels
    in the project, these need --recount. Classes of a project with labels can only get names added
    at their end. The number of partitions stays as it is.

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

    async def write_down() -> "Revision | None":
        """The revision that begins a recount, if that is needed."""
        texts = read_assignments(values)
        revision = await existing_project(place)
        if revision.state != "ready":
            raise Unfinished(place.prefix, revision.state)
        changed = change(revision, texts, has_labels=labels > 0)
        if not changed.names:
            note("nothing changes: the project is so already")
            return None
        if changed.needs_recount:
            if labels and not recount:
                raise click.ClickException(needs_recount(place.prefix, changed.names, labels))
            return await begin(place, "recounting", settings=changed.settings)
        after = revision.next(settings=changed.settings)
        await alter_topics(after.apply_to(place))
        await append(place, after)
        note(f"changed: {', '.join(changed.names)}; instances that run start anew with that")
        return None

    labels = labels_in(place)
    if recount:
        ask_if_expired(place, yes)
    if run_connected(write_down()):
        complete(place)


def needs_recount(prefix: str, names: tuple[str, ...], labels: int) -> str:
    """Why a change is not made, and how it can be.

    >>> needs_recount("birds", ("alpha",), 1200)
    'alpha changes what the 1,200 labels of birds come to: with --recount they are all counted \
anew; nothing was changed'
    """
    verb = "changes" if len(names) == 1 else "change"
    return (
        f"{', '.join(names)} {verb} what the {labels:,} labels of {prefix} come to: with --recount "
        "they are all counted anew; nothing was changed"
    )


@command.command(short_help="Make everything again from labels and tasks.")
@click.option("--yes", is_flag=True, help="Do not ask, though labels have expired.")
@given_options("broker", "prefix")
def recount(given: Given, yes: bool) -> None:
    """Throw away everything but labels, tasks, requests and assignments, and make it again.

    Votes, posteriors, workers and dead letters are what the labels come to; this mends whatever
    is wrong with them. Instances may run: they leave, and start anew when the topics are there. If
    this command is ended before, run it again to complete it.

    Labels that Kafka does not keep any more cannot be counted again: if there are any, it says how
    many and asks first.

    \b
    Examples:
      sbic project recount
      sbic project recount --prefix birds
    """
    from pipeline.cli.connected import run_connected
    from pipeline.project.recreation import begin

    ask_if_expired(given.place, yes)
    run_connected(begin(given.place, "recounting"))
    complete(given.place)


@command.command(short_help="Throw away all labels of a project.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@given_options("broker", "prefix")
def reset(given: Given, yes: bool) -> None:
    """Throw away all labels of a project and what they came to; its settings and tasks stay.

    Tasks stay with their priors and gold, open or closed as they were by hand. Requests and
    assignments go as well. Instances may run. If this command is ended before, run it again.

    \b
    Examples:
      sbic project reset --prefix birds
      sbic project reset --prefix birds --yes
    """
    from pipeline.cli.connected import run_connected
    from pipeline.project.recreation import begin, existing_project

    place = given.place
    run_connected(existing_project(place))
    ask(f"Throw away the {labels_in(place):,} labels of {place.prefix}?", yes)
    run_connected(begin(place, "resetting"))
    complete(place)


@command.command(short_help="Delete a project.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@given_options("broker", "prefix")
def delete(given: Given, yes: bool) -> None:
    """Delete a project: all its topics, labels and tasks among them, and its group.

    Instances that run end; one that is started again would create the project anew.

    \b
    Examples:
      sbic project delete --prefix birds
      sbic project delete --prefix birds --yes
    """
    from pipeline.cli.connected import run_connected
    from pipeline.progress import progress
    from pipeline.project.recreation import begin, existing_project
    from pipeline.project.recreation import delete as delete_all

    place = given.place
    run_connected(existing_project(place))
    labels = labels_in(place)
    ask(f"Delete the project {place.prefix} with its {labels:,} labels?", yes)
    begun = run_connected(begin(place, "deleting"))
    with progress("Deleting"):
        run_connected(delete_all(place, begun, note))
    note(f"deleted: {place.prefix}, with {labels:,} labels")


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


def complete(place: Settings) -> None:
    """Do what the state of the project says, and show how instances count."""
    from pipeline.cli.connected import run_connected
    from pipeline.kafka.groups import group_members
    from pipeline.progress import progress
    from pipeline.project.counting import follow_counting
    from pipeline.project.recreation import existing_project, recreate_topics

    begun = run_connected(existing_project(place))
    members = run_connected(group_members(place))
    with progress("Making topics again"):
        ready = run_connected(recreate_topics(place, begun, note))
    settings = ready.apply_to(place)
    patience = EXPECTED_SECONDS if members else NOT_EXPECTED_SECONDS
    count = run_connected(follow_counting(settings, patience))
    if count.is_complete:
        note(f"done: {count.labels:,} labels, all counted")
        return
    note(
        f"done: {count.labels - count.counted:,} of {count.labels:,} labels are still to be "
        f"counted, and no instance does; start one with: sbic run --prefix {place.prefix}"
    )


def labels_in(place: Settings) -> int:
    """How many labels a project has."""
    from pipeline.cli.connected import run_connected
    from pipeline.kafka.sizes import records_in
    from pipeline.topics import Topics

    return run_connected(records_in(place, Topics(place).labels.name))


def ask_if_expired(place: Settings, yes: bool) -> None:
    """Say that what expired labels have come to would be gone, and let the person confirm."""
    from pipeline.cli.connected import run_connected
    from pipeline.kafka.sizes import expired_from
    from pipeline.topics import Topics

    topic = Topics(place).labels.name
    expired = run_connected(expired_from(place, topic))
    if expired:
        note(
            f"{expired:,} labels have expired from {topic}: they would no longer count, but only "
            f"the {labels_in(place):,} that are left"
        )
        ask("Count those alone?", yes)


def ask(question: str, yes: bool) -> None:
    """Let the person confirm, unless that was said already; a no changes nothing."""
    if not yes:
        click.confirm(f"{question} This cannot be undone.", abort=True, err=True)


def note(text: str) -> None:
    """A line for the person, apart from any output."""
    click.echo(text, err=True)
