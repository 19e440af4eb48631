"""The page of a command's own gateway: its options, and its port."""

import click

from pipeline.cli.errors import BadInput
from pipeline.cli.options import Function, in_order


def page_options(function: Function) -> Function:
    """The options that say where the page is, and whether a browser opens it."""
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
    """The port that was chosen, refused if somebody else uses it; otherwise one that is free."""
    from pipeline.local.gateway import usual_port
    from pipeline.local.ports import is_free

    if chosen is None:
        return usual_port()
    if not is_free(chosen):
        raise BadInput(f"the port {chosen} is taken; choose another with --gateway-port")
    return chosen
