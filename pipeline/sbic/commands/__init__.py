"""The command `sbic`: a module per subcommand, with its work; they talk to people in one way."""

import click

from sbic.foreign import printable


def tell(text: object) -> None:
    """Print lines for people on standard error, as a terminal may show them.

    They name files and columns, and say what was in records of others.
    """
    click.echo(printable(str(text), keep="\n\t"), err=True)
