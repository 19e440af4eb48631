"""`sbic project recount`, `reset` and `delete`: recreates or deletes the topics of a project."""

import click

from pipeline.cli.options import given_options
from pipeline.project.given import Given
from pipeline.settings import Settings

EXPECTED_SECONDS = 15.0  # for running instances, which restart
NOT_EXPECTED_SECONDS = 5.0


@click.command(short_help="Recompute everything from labels and tasks.")
@click.option("--yes", is_flag=True, help="Do not ask if labels have expired.")
@given_options("broker", "prefix")
def recount(given: Given, yes: bool) -> None:
    """Delete everything but labels, tasks, requests and assignments, and recompute it.

    Votes, posteriors, workers and dead letters are computed from the labels; this repairs them.
    Instances may be running: they leave the group, and restart once the topics exist. If this
    command is interrupted, run it again to complete it.

    Labels that Kafka no longer keeps cannot be counted again: if there are any, the command says
    how many and asks first.

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
    from pipeline.cli.connected import run_connected
    from pipeline.project.recreation import begin, existing_project

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


def complete(place: Settings) -> None:
    """Recreate the topics of the project's state, and show the progress of counting."""
    from pipeline.cli.connected import run_connected
    from pipeline.kafka.groups import group_members
    from pipeline.progress import progress
    from pipeline.project.counting import follow_counting
    from pipeline.project.recreation import existing_project, recreate_topics

    begun = run_connected(existing_project(place))
    members = run_connected(group_members(place))
    with progress("Recreating topics"):
        ready = run_connected(recreate_topics(place, begun, note))
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
    from pipeline.cli.connected import run_connected
    from pipeline.kafka.sizes import records_in
    from pipeline.topics import Topics

    return run_connected(records_in(place, Topics(place).labels.name))


def ask_if_expired(place: Settings, yes: bool) -> None:
    """If labels have expired, say that a recount would lose them, and ask for confirmation."""
    from pipeline.cli.connected import run_connected
    from pipeline.kafka.sizes import expired_from
    from pipeline.topics import Topics

    topic = Topics(place).labels.name
    expired = run_connected(expired_from(place, topic))
    if expired:
        note(
            f"{expired:,} labels have expired from {topic}: they would no longer count, only the "
            f"{labels_in(place):,} that are left"
        )
        ask("Count only those?", yes)


def ask(question: str, yes: bool) -> None:
    """Ask for confirmation unless `yes`; a no aborts the command."""
    if not yes:
        click.confirm(f"{question} This cannot be undone.", abort=True, err=True)


def note(text: str) -> None:
    """Print a line for the user to standard error."""
    click.echo(text, err=True)
