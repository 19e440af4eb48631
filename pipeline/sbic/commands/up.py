"""`sbic up`: broker, instances and gateway in one command."""

from contextlib import suppress
from pathlib import Path

import click

from sbic.commands.broker import broker_options, compiling, folder_for, own_broker, what_is_kept
from sbic.commands.options import BadInput, Function, given_options, in_order, run_connected
from sbic.local.java import is_free
from sbic.local.processes import (
    gateway_of,
    instances_of,
    opening,
    page_at,
    until_stopped,
    usual_port,
)
from sbic.project.opening import open_project
from sbic.project.revision import Given
from sbic.project.settings import SPECS, command_line


def page_options(function: Function) -> Function:
    """Return the options of the page: its port, and whether to open it in a browser."""
    return in_order(
        click.option(
            "--gateway-port",
            type=click.IntRange(1, 65535),
            envvar="SBIC_GATEWAY_PORT",
            show_envvar=True,
            help="Port of the gateway and its page.  [default: 8080, or any free one]",
        ),
        click.option("--open", "is_opened", is_flag=True, help="Open the page in a browser."),
    )(function)


def page_port_of(chosen: int | None) -> int:
    """Return the chosen port, refused if it is in use; without one, a free port."""
    if chosen is None:
        return usual_port()
    if not is_free(chosen):
        raise BadInput(f"the port {chosen} is taken; choose another with --gateway-port")
    return chosen


COLOURS = ("cyan", "magenta", "green", "yellow", "blue", "bright_red")


@click.command(short_help="Run a broker and the pipeline on this machine.")
@click.option(
    "--instances",
    type=click.IntRange(1, 100),
    default=1,
    show_default=True,
    help="Instances that share the work.",
)
@page_options
@broker_options
@given_options(*(name for name in SPECS if name not in ("broker", "replication", "instance_id")))
def command(
    given: Given,
    instances: int,
    gateway_port: int | None,
    is_opened: bool,
    port: int,
    data_dir: Path | None,
    ephemeral: bool,
) -> None:
    """Run a broker, the pipeline and a gateway on this machine, until Ctrl-C.

    The broker is that of `sbic broker`, the gateway that of `sbic gateway`, with a page to watch
    the crowd. A process that stops is restarted, with increasing delays; so is the broker, on the
    same data. The web ports count up from --web-port. Everything stops when this command ends, even
    if it is killed.

    \b
    Examples:
      sbic up --open
      sbic up --instances 2 --ephemeral
      sbic up --port 19092 --prefix birds --web-port 7000
    """
    folder = folder_for(data_dir, ephemeral)
    page_port = page_port_of(gateway_port)
    ports = web_ports(given.values.get("web_port", SPECS["web_port"].default), instances)
    if "partitions" in given.values:  # otherwise the project has it
        check_share(instances, given.values["partitions"])
    with (
        suppress(KeyboardInterrupt),
        compiling() as until_compiled,
        own_broker(port, folder) as broker,
    ):
        given = given.with_values(broker=broker.url)
        project = run_connected(open_project(given))
        check_share(instances, project.settings.partitions)
        kept = what_is_kept(folder)
        say("up", f"Kafka is ready at {broker.url} ({kept}); Ctrl-C stops everything")
        shown = command_line(project.settings, "status")
        say("up", f"in another terminal: {shown}")
        loudly("up", f"the page: {page_at(page_port)}")
        gateway = gateway_of(given, [project.settings.prefix], page_port)
        commands = [*instances_of(given, ports), gateway]
        beside = opening(page_port, loudly) if is_opened else None
        until_compiled()
        run_connected(until_stopped(broker, commands, log=say, report=loudly, beside=beside))


def check_share(instances: int, partitions: int) -> None:
    """Refuse more instances than there are partitions."""
    if instances > partitions:
        raise BadInput(
            f"{instances} instances cannot share {partitions} partitions: "
            "choose more --partitions or fewer --instances"
        )


def web_ports(first: int, instances: int) -> list[int]:
    """Return a port for each instance, counting up; refuses ports that are in use."""
    if first == 0:  # each instance finds a free one
        return [0] * instances
    ports = list(range(first, first + instances))
    if ports[-1] > 65535:
        raise BadInput(f"there is no web port {ports[-1]}; choose a lower --web-port")
    for port in ports:
        if not is_free(port):
            raise BadInput(f"the web port {port} is taken; choose another with --web-port")
    return ports


def say(name: str, line: str) -> None:
    """Print a line with the name of the process it is about."""
    number = int(name.rpartition("-")[2]) if "-" in name else 0
    colour = COLOURS[number % len(COLOURS)]
    click.echo(f"{click.style(f'{name:<10}|', fg=colour)} {line}")


def loudly(name: str, line: str) -> None:
    """Print it in bold, for lines that should stand out."""
    say(name, click.style(line, bold=True))
