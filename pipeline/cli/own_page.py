"""The page of a command that starts its own gateway: its options, and its port."""

import click

from pipeline.cli.errors import BadInput
from pipeline.cli.options import Function, in_order


def page_options(function: Function) -> Function:
    """The options of the page: its port, and whether to open it in a browser."""
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
    """The chosen port, refused if it is in use; without one, a free port."""
    from pipeline.local.gateway import usual_port
    from pipeline.local.ports import is_free

    if chosen is None:
        return usual_port()
    if not is_free(chosen):
        raise BadInput(f"the port {chosen} is taken; choose another with --gateway-port")
    return chosen
