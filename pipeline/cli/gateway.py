"""`sbic gateway`: HTTP for those who do not speak Kafka, and the page."""

import os
from pathlib import Path

import click

from pipeline.cli.errors import BadInput
from pipeline.cli.options import given_options
from pipeline.project.given import Given
from pipeline.settings import SPECS, BadSetting

TOKEN = "SBIC_GATEWAY_TOKEN"
RULES = ("stop_confidence", "stop_labels", "budget", "block_below", "block_after")
"""What instances are told and Kafka is not: the status and the page show it."""


@click.command("gateway", short_help="Serve HTTP: labels in, posteriors out, and a page to watch.")
@click.option(
    "--host",
    default="127.0.0.1",
    envvar="SBIC_GATEWAY_HOST",
    show_default=True,
    show_envvar=True,
    help="Address to listen on; one that other machines can reach needs a token.",
)
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=8080,
    envvar="SBIC_GATEWAY_PORT",
    show_default=True,
    show_envvar=True,
    help="Port to listen on; 0: any free one.",
)
@click.option(
    "--projects",
    default="",
    envvar="SBIC_GATEWAY_PROJECTS",
    show_envvar=True,
    metavar="PREFIXES",
    help="Projects to serve, with commas between; the first is the default.  [default: --prefix]",
)
@click.option(
    "--cors",
    default="",
    envvar="SBIC_GATEWAY_CORS",
    show_envvar=True,
    metavar="ORIGINS",
    help="Origins whose pages may ask, with commas between: https://label.example.org",
)
@click.option(
    "--rate",
    type=click.FloatRange(min=1),
    default=5000,
    envvar="SBIC_GATEWAY_RATE",
    show_default=True,
    show_envvar=True,
    help="Requests per second of a token, at most.",
)
@click.option(
    "--connections",
    type=click.IntRange(min=1),
    default=1000,
    envvar="SBIC_GATEWAY_CONNECTIONS",
    show_default=True,
    show_envvar=True,
    help="Connections open at once, at most.",
)
@given_options("broker", "prefix", *RULES)
def command(
    given: Given,
    host: str,
    port: int,
    projects: str,
    cors: str,
    rate: float,
    connections: int,
) -> None:
    """Serve HTTP until SIGTERM: POST /labels, POST /next, GET /tasks/ID, and a page at /.

    Every client sends `Authorization: Bearer TOKEN` where SBIC_GATEWAY_TOKEN, or the file that
    SBIC_GATEWAY_TOKEN_FILE names, has a token; several, to change from one to the next, with
    commas between. Off the loopback there must be one. GET /openapi.json describes everything.

    \b
    Examples:
      sbic gateway
      curl -H 'Content-Type: application/json' localhost:8080/labels \\
        -d '{"task": "t1", "worker": "ann", "label": 1}'
      SBIC_GATEWAY_TOKEN_FILE=token sbic gateway --host 0.0.0.0 --projects birds,pets
    """
    import asyncio

    from pipeline.gateway.config import GatewayConfig
    from pipeline.gateway.errors import CannotStart
    from pipeline.gateway.logs import set_up_logging
    from pipeline.gateway.server import run

    try:
        config = GatewayConfig(host, port, tokens(), listed(cors), rate, connections)
        prefixes = listed(projects) or (given.values.get("prefix", SPECS["prefix"].default),)
        all_given = [given.with_values(prefix=prefix) for prefix in prefixes]
        for each in all_given:
            _ = each.settings
        set_up_logging()
        asyncio.run(run(config, all_given))
    except (CannotStart, BadSetting) as error:
        raise click.ClickException(str(error)) from None


def tokens() -> tuple[str, ...]:
    """The tokens that the environment names; no flag does, since everybody can see flags."""
    path = os.environ.get(f"{TOKEN}_FILE")
    if not path:
        return listed(os.environ.get(TOKEN, ""))
    try:
        return listed(Path(path).read_text())
    except (OSError, UnicodeDecodeError) as error:
        raise BadInput(f"cannot read the tokens in {path}, {TOKEN}_FILE: {error}") from None


def listed(text: str) -> tuple[str, ...]:
    """What stands between commas.

    >>> listed(" one, two,")
    ('one', 'two')
    """
    return tuple(part.strip() for part in text.split(",") if part.strip())
