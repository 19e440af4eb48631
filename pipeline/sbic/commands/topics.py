"""`sbic topics`: creates a project with its topics, or checks an existing one."""

import click

from sbic.commands.options import given_options, run_connected
from sbic.project.opening import Opened, open_project, settings_in_project
from sbic.project.revision import Given
from sbic.project.settings import PROJECT_SETTINGS
from sbic.project.topics import Topics


@click.command("topics", short_help="Create a project: its topics and settings.")
@given_options("broker", "prefix", *PROJECT_SETTINGS)
def command(given: Given) -> None:
    """Create a project with its topics and settings, or check an existing one.

    The settings below are stored with the project, and instances and tools use them. If the project
    exists with other settings, or a topic has the wrong partitions, replication, compaction or
    retention, the command reports it, changes nothing, and exits with status 1; `sbic project set`
    changes settings.

    \b
    Examples:
      sbic topics
      sbic topics --prefix birds --partitions 32
      sbic topics --prefix pets --classes cat,dog,bird
      SBIC_BROKER=kafka://one:9092,two:9092 sbic topics --replication 3
    """

    async def open_or_refuse() -> "Opened":
        await settings_in_project(given)
        return await open_project(given)

    opened = run_connected(open_or_refuse())
    created = {topic.name for topic in opened.created}
    topics = list(Topics(opened.settings))
    width = max(len(topic.name) for topic in topics)
    for topic in topics:
        state = "created" if topic.name in created else "ok"
        click.echo(
            f"{topic.name:<{width}}  {state:<7}  "
            f"{topic.partitions} partition{'s' * (topic.partitions > 1)}, {topic.kept}"
        )
