"""`sbic broker`: a real Apache Kafka on this machine, without Java or Docker."""

from contextlib import suppress
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING

import click

from pipeline.cli.errors import BadInput
from pipeline.cli.options import settings_options
from pipeline.cli.own_broker import broker_options, folder_for, own_broker, what_is_kept
from pipeline.settings import Settings

if TYPE_CHECKING:
    from pipeline.local.embedded import EmbeddedBroker
    from pipeline.local.secure import SecureFolder


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
    from pipeline import hints
    from pipeline.local.java import KAFKA_VERSION

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
            topics = hints.command(Settings(broker=broker.url), "topics")
            click.echo(f"Next, in another terminal: {topics}")
        status = broker.wait()
        click.echo(broker.end_of_log(), err=True)
        raise click.ClickException(f"Kafka stopped with status {status}")


def secure_folder(path: Path) -> "SecureFolder":
    """The folder of a broker with a user for each role."""
    from pipeline.kafka.access.rights import ROLES
    from pipeline.local.secure import SecureFolder

    return SecureFolder(path, ROLES)


def grant(secured: "SecureFolder", broker: "EmbeddedBroker", prefix: str) -> None:
    """Grant each user the rights of its role."""
    from pipeline.cli.connected import run_connected
    from pipeline.kafka.access.grants import grant_roles
    from pipeline.kafka.access.rights import ROLES
    from pipeline.local.secure import ADMIN

    environ = secured.environment(ADMIN, broker.url) | {"SBIC_PREFIX": prefix}
    run_connected(grant_roles(Settings.from_env(environ), {role: role for role in ROLES}))
