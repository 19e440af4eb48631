"""`sbic topics`: creates the topics that are missing and checks those that are there."""

import click

from pipeline.cli.options import settings_options
from pipeline.settings import Settings


@click.command("topics")
@settings_options(
    "broker",
    "prefix",
    "partitions",
    "replication",
    "labels_retention_hours",
    "retention_hours",
    "lease_seconds",
)
def command(settings: Settings) -> None:
    """Create the topics that are missing, and check those that are there.

    If one that is there has the wrong partitions, replication, compaction or retention, it is
    named, nothing at all is changed, and the exit status is 1.

    \b
    Examples:
      sbic topics
      sbic topics --prefix birds --partitions 32
      SBIC_BROKER=kafka://one:9092,two:9092 sbic topics --replication 3
    """
    from pipeline.cli.connected import run_connected
    from pipeline.kafka.admin import ensure_topics
    from pipeline.topics import Topics

    created = {topic.name for topic in run_connected(ensure_topics(settings))}
    topics = list(Topics(settings))
    width = max(len(topic.name) for topic in topics)
    for topic in topics:
        state = "created" if topic.name in created else "ok"
        click.echo(
            f"{topic.name:<{width}}  {state:<7}  {topic.partitions} partitions, {topic.kept}"
        )
