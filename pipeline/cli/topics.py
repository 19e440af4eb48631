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
    import asyncio
    import logging

    from pipeline.kafka.admin import ensure_topics
    from pipeline.kafka.errors import ClusterError, WrongTopics
    from pipeline.topics import Topics

    logging.getLogger("aiokafka").setLevel(logging.CRITICAL)  # the error below says it all
    try:
        created = {topic.name for topic in asyncio.run(ensure_topics(settings))}
    except WrongTopics as wrong:
        for mismatch in wrong.mismatches:
            click.echo(mismatch, err=True)
        raise click.ClickException(
            "nothing was changed; set what the topics were made with, choose another --prefix, "
            "or alter the topics"
        ) from None
    except ClusterError as error:
        raise click.ClickException(str(error)) from None
    topics = list(Topics(settings))
    width = max(len(topic.name) for topic in topics)
    for topic in topics:
        state = "created" if topic.name in created else "ok"
        click.echo(
            f"{topic.name:<{width}}  {state:<7}  {topic.partitions} partitions, {topic.kept}"
        )
