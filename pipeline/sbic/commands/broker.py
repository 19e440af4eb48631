"""`sbic broker`: a real Apache Kafka on this machine, without Java or Docker."""

import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from shlex import quote

import click
from aiokafka.protocol.admin import CreateAclsRequest

from sbic.commands import tell
from sbic.commands.options import BadInput, Function, in_order, run_connected, settings_options
from sbic.kafka.connect import RequestClient, connected
from sbic.kafka.errors import Refused
from sbic.kafka.rights import ROLES, Resource, Right
from sbic.local import guard
from sbic.local.broker import EmbeddedBroker, default_folder
from sbic.local.java import KAFKA_VERSION, BadChoice, BrokerCannotStart
from sbic.local.secure import ADMIN, SecureFolder
from sbic.project.settings import Settings, command_line

COMPILING_NOTICE_SECONDS = 1.0


def broker_options(function: Function) -> Function:
    """Return the options of the broker: its port, and its data folder."""
    return in_order(
        click.option(
            "--port",
            type=click.IntRange(1, 65535),
            default=9092,
            show_default=True,
            help="Port of the broker.",
        ),
        click.option(
            "--data-dir",
            type=click.Path(path_type=Path, file_okay=False),
            help="Folder for Kafka's data, kept between runs.  [default: a per-user data folder]",
        ),
        click.option("--ephemeral", is_flag=True, help="Keep nothing: a temporary folder."),
    )(function)


def folder_for(data_dir: Path | None, ephemeral: bool) -> Path | None:
    """Return the folder for Kafka's data; None if nothing is kept."""
    if ephemeral and data_dir:
        raise BadInput("--ephemeral keeps nothing: leave out --data-dir")
    return None if ephemeral else data_dir or default_folder()


def what_is_kept(folder: Path | None) -> str:
    """Return what is kept, in words."""
    return f"data in {folder}" if folder else "nothing is kept"


@contextmanager
def own_broker(
    port: int = 0, folder: Path | None = None, secure: SecureFolder | None = None
) -> "Iterator[EmbeddedBroker]":
    """Run a broker while the block runs; Ctrl-C, SIGTERM and SIGHUP stop both gracefully."""
    for terminal_gone_or_stop in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(terminal_gone_or_stop, signal.default_int_handler)
    try:
        with EmbeddedBroker(port, folder, secure=secure) as broker:
            yield broker
    except BadChoice as error:
        raise BadInput(str(error)) from None
    except BrokerCannotStart as error:
        if error.log:
            tell(error.log)
        raise click.ClickException(str(error)) from None


# Grants roles to users, as `kafka-acls` does, on the embedded broker.


RESOURCE_TYPES: Mapping[Resource, int] = {"topic": 2, "group": 3}
LITERAL, PREFIXED = 3, 4
ALLOW = 3
ANY_HOST = "*"


async def grant_roles(settings: Settings, users: Mapping[str, str]) -> None:
    """Grant each role to a user on the topics of this prefix; existing grants stay."""
    async with connected(Granting(settings), settings) as granting:
        for role, user in users.items():
            for right in ROLES[role]:
                await granting.grant(right, user)


class Granting(RequestClient):
    """A client for CreateAcls, which aiokafka 0.14 defines but its admin client does not send."""

    async def grant(self, right: Right, user: str) -> None:
        """Grant a right to a user."""
        prefix = self.settings.prefix
        request = CreateAclsRequest(
            RESOURCE_TYPES[right.resource],
            right.target(prefix),
            PREFIXED if right.is_prefixed else LITERAL,
            f"User:{user}",
            ANY_HOST,
            right.operation,
            ALLOW,
        )
        answer = await self.client.send(self.client.get_random_node(), request)
        ((error_code, message),) = answer.creation_responses
        if error_code:
            raise Refused(f"Kafka does not grant {right.acl_options(prefix)}: {message}")


@contextmanager
def compiling() -> Iterator[Callable[[], None]]:
    """Compile what instances run beside the block, in which the function waits for it.

    Instances that start at the same time would otherwise all compile the same.
    """
    command = (sys.executable, "-P", "-m", "sbic.commands.warm_up", "instances")
    running = subprocess.Popen(
        (sys.executable, "-I", "-S", guard.__file__, "", *command),
        stdin=subprocess.PIPE,  # when it closes, even because this process was killed, it ends
        stderr=subprocess.DEVNULL,  # an instance says the same
        start_new_session=True,  # Ctrl-C goes to this process only
    )

    def wait() -> None:
        try:
            running.wait(COMPILING_NOTICE_SECONDS)
        except subprocess.TimeoutExpired:
            tell("Compiling, once: this takes up to a minute ...")
            running.wait()

    try:
        yield wait
    finally:
        assert running.stdin
        running.stdin.close()
        running.wait()


@click.command("broker")
@broker_options
@click.option(
    "--secure",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="DIR",
    help="Require TLS, passwords and ACLs; certificates, users and data are in this folder.",
)
@settings_options("prefix")
def command(
    settings: Settings, port: int, data_dir: Path | None, ephemeral: bool, secure: Path | None
) -> None:
    """Run a real Apache Kafka on this machine, for development, until Ctrl-C.

    It listens on loopback only. The first run downloads Kafka, 45 MB, from Maven Central; later
    runs need no network. Kafka stops when this command ends, even if it is killed.

    With --secure clients need TLS, a password and ACLs, as on most clusters: DIR gets a CA, and for
    each role (operator, pipeline, producer, reader, gateway) a user with exactly the rights that it
    needs on the topics of --prefix, and a file NAME.env to source. See docs/security.md.

    \b
    Examples:
      sbic broker
      sbic broker --port 19092 --ephemeral
      sbic broker --secure ~/secure-kafka
      . ~/secure-kafka/operator.env && sbic topics
    """
    if secure and data_dir:
        raise BadInput("--secure keeps Kafka's data in its own folder: leave out --data-dir")
    folder = folder_for(secure / "kafka" if secure and not ephemeral else data_dir, ephemeral)
    secured = secure_folder(secure) if secure else None
    with suppress(KeyboardInterrupt), own_broker(port, folder, secured) as broker:
        kept = what_is_kept(folder)
        click.echo(f"Kafka {KAFKA_VERSION} is ready at {broker.url} ({kept}); Ctrl-C stops it.")
        if secured:
            grant(secured, broker, settings.prefix)
            shown = quote(str(secured.environment_file("operator")))
            click.echo(f"It requires TLS and a password; the users and their files: {secured.path}")
            click.echo(f"Next, in another terminal: . {shown} && sbic topics")
        else:
            topics = command_line(Settings(broker=broker.url), "topics")
            click.echo(f"Next, in another terminal: {topics}")
        status = broker.wait()
        tell(broker.end_of_log())
        raise click.ClickException(f"Kafka stopped with status {status}")


def secure_folder(path: Path) -> SecureFolder:
    """Return the folder of a broker with a user for each role."""
    return SecureFolder(path, ROLES)


def grant(secured: SecureFolder, broker: EmbeddedBroker, prefix: str) -> None:
    """Grant each user the rights of its role."""
    environ = secured.environment(ADMIN, broker.url) | {"SBIC_PREFIX": prefix}
    run_connected(grant_roles(Settings.from_env(environ), {role: role for role in ROLES}))
