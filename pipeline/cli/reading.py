"""Options of the commands that read a file: what its columns and its labels mean."""

import csv
from collections.abc import Callable
from functools import wraps
from typing import Any

import click

from pipeline.cli.options import Function, in_order
from pipeline.files.reading import Reading


class Listed(click.ParamType):
    """Names separated by commas; one with a comma in it is quoted, as in CSV."""

    name = "list"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, ...]:
        """The names, none of them empty."""
        if isinstance(value, tuple):
            return value
        try:
            (row,) = csv.reader([value], strict=True, skipinitialspace=True)
        except (csv.Error, ValueError):
            self.fail(f"{value!r} is not a list of names separated by commas", param, ctx)
        names = tuple(name.strip() for name in row)
        if not all(names):
            self.fail(f"{value!r} has an empty name", param, ctx)
        return names


class Columns(click.ParamType):
    """Fields with their columns: `task=HITId,label=Answer`."""

    name = "columns"

    def __init__(self, fields: tuple[str, ...]) -> None:
        self.fields = fields

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> dict[str, str]:
        """The column of each field that is named."""
        columns: dict[str, str] = {}
        for pair in Listed().convert(value, param, ctx):
            field, _, column = (part.strip() for part in pair.partition("="))
            if field not in self.fields or not column:
                known = ", ".join(self.fields)
                self.fail(f"{pair!r} is not FIELD=COLUMN with a field of {known}", param, ctx)
            if field in columns:
                self.fail(f"the field {field!r} is there twice", param, ctx)
            columns[field] = column
        return columns


def reading_options(
    *fields: str, example: str, classes: bool = True
) -> Callable[[Function], Function]:
    """Gives a command the options that say how to read a file, as its argument `reading`.

    Without `classes` there are only those that make sense for 1 and -1.
    """
    options = [
        click.option(
            "--columns",
            type=Columns(fields),
            metavar="FIELD=COLUMN,...",
            help=f"Columns with other names than {', '.join(fields)}: {example}.",
        ),
        click.option("--positive", metavar="LABEL", help="What stands for 1: yes."),
        click.option("--negative", metavar="LABEL", help="What stands for -1: no."),
    ]
    if classes:
        options += [
            click.option(
                "--classes",
                type=Listed(),
                metavar="LABEL,...",
                help="All classes in order: cat,dog,bird. Any other label is an error.",
            ),
            click.option(
                "--skip",
                type=Listed(),
                metavar="LABEL,...",
                help="Labels that are no answer: 0. An empty one never is.",
            ),
        ]

    def decorate(function: Function) -> Function:
        @wraps(function)
        def with_reading(**arguments: Any) -> Any:
            given = {
                name: value
                for name in ("columns", "positive", "negative", "classes", "skip")
                if (value := arguments.pop(name, None)) is not None
            }
            try:
                reading = Reading(**given)
            except ValueError as error:
                raise click.UsageError(str(error)) from error
            return function(reading=reading, **arguments)

        return in_order(*options)(with_reading)

    return decorate
