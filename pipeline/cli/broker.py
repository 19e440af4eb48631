"""`sbic broker`: a real Apache Kafka on this machine, without Java or Docker."""

from contextlib import suppress
from pathlib import Path

import click

from pipeline.cli.own_broker import broker_options, folder_for, own_broker, what_is_kept


@click.command("broker")
@broker_options
def command(port: int, data_dir: Path | None, ephemeral: bool) -> None:
    """Run a real Apache Kafka on this machine, for development, until Ctrl-C.

    It listens on loopback only. The first run fetches Kafka, 45 MB, from Maven Central; later
    runs need no network. It ends when this command ends, however that may be.

    \b
    Examples:
      sbic broker
      sbic broker --port 19092 --ephemeral
    """
    from pipeline import hints
    from pipeline.broker.java import KAFKA_VERSION
    from pipeline.settings import Settings

    folder = folder_for(data_dir, ephemeral)
    with suppress(KeyboardInterrupt), own_broker(port, folder) as broker:
        kept = what_is_kept(folder)
        click.echo(f"Kafka {KAFKA_VERSION} is ready at {broker.url} ({kept}); Ctrl-C ends it.")
        topics = hints.command(Settings(broker=broker.url), "topics")
        click.echo(f"Next, in another terminal: {topics}")
        status = broker.wait()
        click.echo(broker.end_of_log(), err=True)
        raise click.ClickException(f"Kafka ended by itself, with status {status}")
