"""`sbic project`: shows the settings of projects, changes them, recounts and deletes."""

from time import monotonic

import click

from sbic.commands import project_copy, tell
from sbic.commands.options import given_options, run_connected
from sbic.kafka.admin import alter_topics, expired_from, records_in
from sbic.kafka.groups import group_members
from sbic.progress import progress
from sbic.project.changes import change, follow_counting, read_assignments
from sbic.project.opening import Unfinished, append, check_topic_ids, existing_project, projects
from sbic.project.recreation import begin, recreate_topics
from sbic.project.recreation import delete as delete_all
from sbic.project.repartition import begin_repartition, repartition
from sbic.project.revision import Given, Revision
from sbic.project.settings import PROJECT_SETTINGS, SPECS, Settings, WhenChanged
from sbic.project.topics import Topics

EXPECTED_SECONDS = 15.0  # for running instances, which restart
NOT_EXPECTED_SECONDS = 5.0
REOPEN_HELP = "Reopen the tasks that stop rules have closed."


@click.command(short_help="Recompute everything from labels and tasks.")
@click.option("--yes", is_flag=True, help="Do not ask if labels have expired.")
@click.option("--new-key", is_flag=True, help="Seal the records of instances with a new key.")
@click.option("--reopen", is_flag=True, help=REOPEN_HELP)
@given_options("broker", "prefix")
def recount(given: Given, yes: bool, new_key: bool, reopen: bool) -> None:
    """Delete everything but labels, tasks, requests and assignments, and recompute it.

    Votes, posteriors, workers and dead letters are computed from the labels; this repairs them.
    Instances may be running: they leave the group, and restart once the topics exist. If this
    command is interrupted, run it again to complete it.

    Tasks that a stop rule has closed stay closed, until new labels make one doubtful. With --reopen
    all of them are open again until the rules close them, with the labels in the order in which
    they are counted now.

    Records in partitions that somebody has added move to the partitions of the project.

    With --new-key the records of instances are sealed with a new key from then on. That ends the
    leases of workers: they ask for a task again.

    Labels that Kafka no longer keeps cannot be counted again: if there are any, the command says
    how many and asks first.

    \b
    Examples:
      sbic project recount
      sbic project recount --prefix birds
      sbic project recount --reopen
      sbic project recount --new-key
    """
    ask_if_expired(given.place, yes)
    run_connected(begin(given.place, "rotating" if new_key else "recounting"))
    complete(given.place, reopens=reopen)


@click.command(short_help="Delete all labels of a project.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@given_options("broker", "prefix")
def reset(given: Given, yes: bool) -> None:
    """Delete all labels of a project and everything computed from them; settings and tasks stay.

    Tasks keep their priors and gold, and stay open or closed as set by hand. Requests and
    assignments are deleted as well. Instances may be running. If this command is interrupted, run
    it again to complete it.

    \b
    Examples:
      sbic project reset --prefix birds
      sbic project reset --prefix birds --yes
    """
    place = given.place
    run_connected(existing_project(place))
    ask(f"Delete the {labels_in(place):,} labels of {place.prefix}?", yes)
    run_connected(begin(place, "resetting"))
    complete(place)


@click.command(short_help="Delete a project.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@given_options("broker", "prefix")
def delete(given: Given, yes: bool) -> None:
    """Delete a project: its consumer group and all its topics, including labels and tasks.

    Running instances stop; one that is started again would recreate the project.

    \b
    Examples:
      sbic project delete --prefix birds
      sbic project delete --prefix birds --yes
    """
    place = given.place
    run_connected(existing_project(place))
    labels = labels_in(place)
    ask(f"Delete the project {place.prefix} with its {labels:,} labels?", yes)
    begun = run_connected(begin(place, "deleting"))
    with progress("Deleting"):
        run_connected(delete_all(place, begun, note))
    note(f"deleted: {place.prefix}, with {labels:,} labels")


@click.command("repartition", short_help="Change the number of partitions.")
@click.argument("partitions", metavar="N", type=int)
@click.option("--yes", is_flag=True, help="Do not ask if labels have expired.")
@given_options("broker", "prefix")
def repartition_project(given: Given, partitions: int, yes: bool) -> None:
    """Give all topics of a project N partitions, more or fewer than now, and count all labels.

    What users wrote is carried over by key, in the order of each worker and task; the rest is
    computed again, as by a recount. Requests and leases end: workers ask for a task again. Labels
    get other partitions and offsets. Partitions that somebody has added are taken over.

    Instances may be running: they leave the group, wait, and go on with N partitions. Gateways and
    tools of sbic refuse labels meanwhile; stop producers that write to Kafka directly: Kafka
    refuses their labels, too. The disks of the brokers need room for the labels once more.

    If this command is interrupted, run it again to complete it. As long as copies are made, the old
    number calls it off.

    \b
    Examples:
      sbic project repartition 32
      sbic project repartition 32 --prefix birds
    """
    place = given.place
    ask_if_expired(place, yes)
    members = run_connected(group_members(place))
    begun = run_connected(begin_repartition(place, partitions))
    if begun is None:
        note(f"{place.prefix} has {partitions} partitions")
        return
    started = monotonic()
    ready = run_connected(repartition(place, begun, note))
    note(f"{place.prefix} has {partitions} partitions, after {monotonic() - started:.0f} s")
    follow(place, ready, members)


def complete(place: Settings, *, reopens: bool = False) -> None:
    """Recreate the topics of the project's state, and show the progress of counting."""
    begun = run_connected(existing_project(place))
    members = run_connected(group_members(place))
    with progress("Recreating topics"):
        ready = run_connected(recreate_topics(place, begun, note, reopens=reopens))
    follow(place, ready, members)


def follow(place: Settings, ready: Revision, members: int) -> None:
    """Show the progress of counting, if there were instances."""
    settings = ready.apply_to(place)
    patience = EXPECTED_SECONDS if members else NOT_EXPECTED_SECONDS
    count = run_connected(follow_counting(settings, patience))
    if count.is_complete:
        note(f"done: {count.labels:,} labels, all counted")
        return
    note(
        f"done: {count.labels - count.counted:,} of {count.labels:,} labels are still to be "
        f"counted, but no instance is running; start one with: sbic run --prefix {place.prefix}"
    )


def labels_in(place: Settings) -> int:
    """How many labels a project has."""
    return run_connected(records_in(place, Topics(place).labels.name))


def ask_if_expired(place: Settings, yes: bool) -> None:
    """If labels have expired, say that a recount would lose them, and ask for confirmation."""
    topic = Topics(run_connected(existing_project(place)).apply_to(place)).labels
    expired = run_connected(expired_from(place, topic))
    if expired:
        note(
            f"{expired:,} labels have expired from {topic.name}: they would no longer count, only "
            f"the {labels_in(place):,} that are left"
        )
        ask("Count only those?", yes)


def ask(question: str, yes: bool) -> None:
    """Ask for confirmation unless `yes`; a no aborts the command."""
    if not yes:
        click.confirm(f"{question} This cannot be undone.", abort=True, err=True)


def note(text: str) -> None:
    """Print a line for the user to standard error."""
    tell(text)


@click.group("project", short_help="Show, change, recount, reset and delete projects.")
def command() -> None:
    """Show the settings of a project, and change them.

    A project gets its settings when it is created, by `sbic topics` or the first start of an
    instance: partitions, classes, algorithm, alpha, beta, prior and others. Instances and tools use
    these settings: what they are given is for a new project only, and they say what differs.

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
    place = given.place
    revision = run_connected(existing_project(place))
    labels = labels_in(place)
    click.echo(f"{place.prefix}: {revision.state}, revision {revision.number}, {labels:,} labels")
    for name, value in revision.settings.items():
        click.echo(f"{name:<23} {'-' if value is None else value}")
    if revision.state == "ready":
        run_connected(check_topic_ids(place, revision))


def changed_by(*changes: WhenChanged) -> str:
    """Return the settings of a project whose change has one of these effects.

    >>> changed_by("never")
    'partitions and replication'
    """
    *names, last = (name for name in PROJECT_SETTINGS if SPECS[name].change in changes)
    return f"{', '.join(names)} and {last}"


SET_HELP = f"""Change settings of a project.

    {changed_by("at once")} change at once, for all running instances and gateways; `none` switches
    off what can be off. With {changed_by("restart")} running instances restart.
    {changed_by("recount")} change the results of existing labels: if there are any, --recount is
    needed. If a project has labels, class names can only be added at the end. {changed_by("never")}
    cannot be changed here: see sbic project repartition.

    \b
    Examples:
      sbic project set stop_confidence=0.99 stop_labels=12 budget=none
      sbic project set policy=uniform lease_seconds=120
      sbic project set --prefix pets classes=cat,dog,bird
      sbic project set --prefix birds alpha=3 beta=2 --recount
    """


@command.command("set", short_help="Change settings of a project.", help=SET_HELP)
@click.argument("values", metavar="NAME=VALUE...", nargs=-1, required=True)
@click.option("--recount", "may_recount", is_flag=True, help="Count all labels again, if needed.")
@click.option(
    "--reopen", is_flag=True, help=f"With --recount: {REOPEN_HELP[0].lower()}{REOPEN_HELP[1:]}"
)
@click.option("--yes", is_flag=True, help="With --recount: do not ask if labels have expired.")
@given_options("broker", "prefix")
def set_values(
    given: Given, values: tuple[str, ...], may_recount: bool, reopen: bool, yes: bool
) -> None:
    """Change settings of a project; see `SET_HELP`."""
    place = given.place

    async def publish_change() -> Revision | None:
        """Return the revision that begins a recount, if one is needed."""
        texts = read_assignments(values)
        revision = await existing_project(place)
        if revision.state != "ready":
            raise Unfinished(place.prefix, revision)
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
        how = "follow at once" if changed.is_followed else "restart with that"
        note(f"changed: {', '.join(changed.names)}; running instances {how}")
        return None

    labels = labels_in(place)
    if may_recount:
        ask_if_expired(place, yes)
    if run_connected(publish_change()):
        complete(place, reopens=reopen)


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


for each in (recount, reset, repartition_project, delete, project_copy.command):
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
