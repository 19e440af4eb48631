"""`sbic up`: broker and instances in one command."""

from pathlib import Path

import click

from pipeline.cli.errors import BadInput
from pipeline.cli.options import settings_options
from pipeline.settings import SPECS, Settings

COLOURS = ("cyan", "magenta", "green", "yellow", "blue", "bright_red")


@click.command(short_help="Run a broker and the pipeline on this machine.")
@click.option(
    "--instances",
    type=click.IntRange(1, 100),
    default=1,
    show_default=True,
    help="How many instances share the work.",
)
@click.option(
    "--port",
    type=click.IntRange(1, 65535),
    default=9092,
    show_default=True,
    help="Port of the broker.",
)
@click.option(
    "--data-dir",
    type=click.Path(path_type=Path, file_okay=False),
    help="Folder for Kafka's data, kept between runs.  [default: a per-user data folder]",
)
@click.option("--ephemeral", is_flag=True, help="Keep nothing: a temporary folder.")
@settings_options(*(name for name in SPECS if name not in ("broker", "replication")))
def command(
    settings: Settings, instances: int, port: int, data_dir: Path | None, ephemeral: bool
) -> None:
    """Run a broker and the pipeline on this machine, until Ctrl-C.

    The broker is that of `sbic broker`. An instance that stops is started again, later each time.
    The web ports count up from --web-port. Everything ends when this command ends, however that
    may be.

    \b
    Examples:
      sbic up
      sbic up --instances 2 --ephemeral
      sbic up --port 19092 --prefix birds --web-port 7000
    """
    import asyncio
    import logging
    import signal
    from dataclasses import replace

    from pipeline.broker.embedded import EmbeddedBroker
    from pipeline.broker.errors import BadChoice, CannotStart
    from pipeline.broker.folder import default_folder
    from pipeline.kafka.admin import ensure_topics
    from pipeline.kafka.errors import ClusterError
    from pipeline.tools.instances import instances_of
    from pipeline.tools.up import until_stopped

    if ephemeral and data_dir:
        raise BadInput("--ephemeral keeps nothing: leave out --data-dir")
    if instances > settings.partitions:
        raise BadInput(
            f"{instances} instances cannot share {settings.partitions} partitions: "
            "choose more --partitions or fewer --instances"
        )
    ports = web_ports(settings.web_port, instances)
    logging.getLogger("aiokafka").setLevel(logging.CRITICAL)  # the errors below say it all
    for terminal_gone_or_stop in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(terminal_gone_or_stop, signal.default_int_handler)
    folder = None if ephemeral else data_dir or default_folder()
    try:
        with EmbeddedBroker(port, folder) as broker:
            settings = replace(settings, broker=broker.url)
            asyncio.run(ensure_topics(settings))
            kept = f"data in {folder}" if folder else "nothing is kept"
            say("up", f"Kafka is ready at {broker.url} ({kept}); Ctrl-C ends everything")
            commands = instances_of(settings, ports)
            asyncio.run(until_stopped(broker, commands, log=say, say=loudly))
    except BadChoice as error:
        raise BadInput(str(error)) from None
    except (CannotStart, ClusterError) as error:
        if log := getattr(error, "log", ""):
            click.echo(log, err=True)
        raise click.ClickException(str(error)) from None
    except KeyboardInterrupt:
        return


def web_ports(first: int, instances: int) -> list[int]:
    """A port for each instance, counting up; refuses those that somebody else uses."""
    from pipeline.broker.ports import is_free

    if first == 0:  # any free one, as each instance finds it
        return [0] * instances
    ports = list(range(first, first + instances))
    if ports[-1] > 65535:
        raise BadInput(f"there is no web port {ports[-1]}; choose a lower --web-port")
    for port in ports:
        if not is_free(port):
            raise BadInput(f"the web port {port} is taken; choose another with --web-port")
    return ports


def say(name: str, line: str) -> None:
    """Print a line with the name of what it is about."""
    number = int(name.rpartition("-")[2]) if "-" in name else 0
    colour = COLOURS[number % len(COLOURS)]
    click.echo(f"{click.style(f'{name:<9}|', fg=colour)} {line}")


def loudly(name: str, line: str) -> None:
    """The same, for what a person should not miss among the rest."""
    say(name, click.style(line, bold=True))
