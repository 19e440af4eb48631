"""`sbic gateway`: HTTP and the page, for those who do not use Kafka themselves."""

import asyncio
import logging
from typing import Any

import click

from sbic.commands.options import BadInput, given_options, spec_options
from sbic.gateway.config import GATEWAY_SPECS, GatewayCannotStart, GatewayConfig, tokens_in
from sbic.project.revision import Given
from sbic.project.settings import SPECS, BadSetting


@click.command("gateway", short_help="Serve HTTP: labels in, posteriors out, and a page to watch.")
@spec_options(GATEWAY_SPECS)
@given_options("broker", "prefix", "log_level", "log_format")
def command(given: Given, **values: Any) -> None:
    """Serve HTTP until SIGTERM: POST /labels, POST /next, GET /tasks/ID, and a page at /.

    With a token in SBIC_GATEWAY_TOKEN, or in the file that SBIC_GATEWAY_TOKEN_FILE names, every
    client has to send `Authorization: Bearer TOKEN`. Several tokens are separated by commas, to
    rotate them. A gateway that other machines can reach needs one. GET /openapi.json describes the
    API.

    \b
    Examples:
      sbic gateway
      curl -H 'Content-Type: application/json' localhost:8080/labels \\
        -d '{"task": "t1", "worker": "ann", "label": 1}'
      SBIC_GATEWAY_TOKEN_FILE=token sbic gateway --host 0.0.0.0 --projects birds,pets
    """

    from sbic.gateway.server import run
    from sbic.runtime.logs import set_up_logging

    try:
        tokens = tokens_in()
    except GatewayCannotStart as error:
        raise BadInput(str(error)) from None
    try:
        config = GatewayConfig(**values, tokens=tokens)
        prefixes = config.projects or (given.values.get("prefix", SPECS["prefix"].default),)
        all_given = [given.with_values(prefix=prefix) for prefix in prefixes]
        all_settings = [each.settings for each in all_given]
        set_up_logging(all_settings[0].log_level, all_settings[0].log_format)
        logging.getLogger("aiokafka").setLevel(logging.CRITICAL)  # it would repeat our messages
        asyncio.run(run(config, all_given))
    except (GatewayCannotStart, BadSetting) as error:
        raise click.ClickException(str(error)) from None
