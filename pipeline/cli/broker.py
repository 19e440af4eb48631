"""`sbic broker`: a real Apache Kafka on this machine, without Java or Docker."""

import signal
from pathlib import Path

import click

from pipeline.cli.errors import BadInput


@click.command("broker")
@click.option("--port", type=click.IntRange(1, 65535), default=9092, show_default=True)
@click.option(
    "--data-dir",
    type=click.Path(path_type=Path, file_okay=False),
    help="Folder for Kafka's data, kept between runs.  [default: a per-user data folder]",
)
@click.option("--ephemeral", is_flag=True, help="Keep nothing: a temporary folder.")
def command(port: int, data_dir: Path | None, ephemeral: bool) -> None:
    """Run a real Apache Kafka on this machine, for development, until Ctrl-C.

    It listens on loopback only. The first run fetches Kafka, 45 MB, from Maven Central; later
    runs need no network. It ends when this command ends, however that may be.

    \b
    Examples:
      sbic broker
      sbic broker --port 19092 --ephemeral
    """
    from pipeline.broker.embedded import EmbeddedBroker
    from pipeline.broker.errors import BadChoice, CannotStart
    from pipeline.broker.folder import default_folder
    from pipeline.broker.java import KAFKA_VERSION

    if ephemeral and data_dir:
        raise BadInput("--ephemeral keeps nothing: leave out --data-dir")
    folder = None if ephemeral else data_dir or default_folder()
    broker = EmbeddedBroker(port, folder)
    for terminal_gone_or_stop in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(terminal_gone_or_stop, signal.default_int_handler)
    try:
        with broker:
            kept = f"data in {folder}" if folder else "nothing is kept"
            click.echo(f"Kafka {KAFKA_VERSION} is ready at {broker.url} ({kept}); Ctrl-C ends it.")
            where = "" if port == 9092 else f"SBIC_BROKER={broker.url} "
            click.echo(f"Next, in another terminal: {where}sbic topics")
            status = broker.wait()
            click.echo(broker.end_of_log(), err=True)
            raise click.ClickException(f"Kafka ended by itself, with status {status}")
    except BadChoice as error:
        raise BadInput(str(error)) from None
    except CannotStart as error:
        if error.log:
            click.echo(error.log, err=True)
        raise click.ClickException(str(error)) from None
    except KeyboardInterrupt:
        return
