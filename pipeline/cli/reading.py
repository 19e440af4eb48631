"""Options of the commands that read a file: its columns and labels."""

import csv
from collections.abc import Callable
from dataclasses import replace
from functools import wraps
from typing import Any

import click

from pipeline.classes import Classes
from pipeline.cli.options import Function, in_order
from pipeline.files.reading import Reading
from pipeline.foreign import shown


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
            self.fail(f"{shown(value)} is not a list of names separated by commas", param, ctx)
        names = tuple(name.strip() for name in row)
        if not all(names):
            self.fail(f"{shown(value)} has an empty name", param, ctx)
        return names


class Columns(click.ParamType):
    """Fields with their columns: `task=HITId,label=Answer`."""

    name = "columns"

    def __init__(self, fields: tuple[str, ...]) -> None:
        self.fields = fields

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> dict[str, str]:
        """The column of each field given."""
        columns: dict[str, str] = {}
        for pair in Listed().convert(value, param, ctx):
            field, _, column = (part.strip() for part in pair.partition("="))
            if field not in self.fields or not column:
                known = ", ".join(self.fields)
                self.fail(f"{shown(pair)} is not FIELD=COLUMN with a field of {known}", param, ctx)
            if field in columns:
                self.fail(f"the field {shown(field)} is given twice", param, ctx)
            columns[field] = column
        return columns


def reading_options(
    *fields: str, example: str, classes: bool = True, skip: bool = True
) -> Callable[[Function], Function]:
    """Gives a command the options for reading a file, as its argument `reading`.

    `classes` and `skip` are whether to include the options of these names.
    """
    names = ["columns", "positive", "negative", *["classes"] * classes, *["skip"] * skip]
    options = [
        click.option(
            "--columns",
            type=Columns(fields),
            metavar="FIELD=COLUMN,...",
            help=f"Columns of {', '.join(fields)} with other names, such as {example}.",
        ),
        click.option(
            "--positive", metavar="LABEL", help="The label that stands for 1, such as yes."
        ),
        click.option(
            "--negative", metavar="LABEL", help="The label that stands for -1, such as no."
        ),
    ]
    if classes:
        options.append(
            click.option(
                "--classes",
                type=Listed(),
                metavar="LABEL,...",
                help="All classes in order, such as cat,dog,bird. Any other label is an error.",
            )
        )
    if skip:
        options.append(
            click.option(
                "--skip",
                type=Listed(),
                metavar="LABEL,...",
                help="Labels that are skips, such as 0 or unsure. An empty label always is.",
            )
        )

    def decorate(function: Function) -> Function:
        @wraps(function)
        def with_reading(**arguments: Any) -> Any:
            given = {name: value for name in names if (value := arguments.pop(name)) is not None}
            try:
                reading = Reading(**given)
            except ValueError as error:
                raise click.UsageError(str(error)) from error
            return function(reading=reading, **arguments)

        return in_order(*options)(with_reading)

    return decorate


def of_project(reading: Reading, classes: Classes) -> Reading:
    """How to read a file for a project: its class names, if it has any, are the labels.

    >>> of_project(Reading(skip=("?",)), Classes.parse("cat,dog")).classes
    ('cat', 'dog')
    """
    if classes.is_signs:
        return reading
    if reading.positive is not None:
        raise click.UsageError(
            "--positive and --negative make labels 1 and -1, but the classes of the project are "
            f"{classes.listed()}"
        )
    try:
        return replace(reading, classes=classes.names, classes_from="the classes of the project")
    except ValueError as error:
        raise click.UsageError(str(error)) from error
