"""What a command raises when its input is bad: one line for the person, and the exit status."""

import click


class BadInput(click.ClickException):
    """Something the caller gave is wrong: says what and where; exit status 2."""

    exit_code = 2
