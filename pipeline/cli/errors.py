"""The error of a command whose input is bad."""

import click


class BadInput(click.ClickException):
    """The input is wrong; the message says what and where. Exit status 2."""

    exit_code = 2
