"""What subcommands share: settings as options, errors in one line, maps of labels, columns."""

import asyncio
import csv
import logging
import sys
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import replace
from functools import wraps
from typing import Any, TypeVar

import click
from click.core import ParameterSource

from sbic.classes import Classes
from sbic.files.labels import Reading
from sbic.foreign import printable, shown
from sbic.kafka.errors import ClusterError, WrongTopics
from sbic.project.opening import Refusal
from sbic.project.revision import Given
from sbic.project.security import BadSecurity, Security
from sbic.project.settings import SPECS, BadSetting, Settings, Spec, full_name, read_value, variable


class BadInput(click.ClickException):
    """The input is wrong; the message says what and where. Exit status 2."""

    exit_code = 2


def for_output(data: str) -> str:
    """Data for standard output: as it is for a file or a pipe, filtered for a terminal."""
    return printable(data, keep="\n\t") if sys.stdout.isatty() else data


def write_output(content: bytes) -> None:
    """Write a part of a file to standard output; filtered, if that is a terminal."""
    if sys.stdout.isatty():
        content = for_output(content.decode(errors="backslashreplace")).encode()
    click.get_binary_stream("stdout").write(content)


# Settings as command-line options: each `SBIC_*` variable is also a flag, with the same help.


Function = Callable[..., Any]
EXPLICIT = (ParameterSource.COMMANDLINE, ParameterSource.ENVIRONMENT)


class SettingType(click.ParamType):
    """Reads one setting; a bad value is reported with its flag and its variable."""

    def __init__(self, spec: Spec) -> None:
        self.spec = spec
        kind = spec.metadata["kind"]
        shown = kind if isinstance(kind, type) else type(spec.default)
        self.name = "list" if shown is tuple else shown.__name__

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> object:
        """The value; a bad one is a usage error."""
        if not isinstance(value, str):
            return value  # the default
        try:
            return read_value(self.spec, value)
        except BadSetting as bad:
            self.fail(bad.problem, param, ctx)


def in_order(*options: Callable[[Function], Function]) -> Callable[[Function], Function]:
    """Combines options into one decorator, in the order in which `--help` shows them."""

    def decorate(function: Function) -> Function:
        for option in reversed(options):
            function = option(function)
        return function

    return decorate


def settings_options(*names: str) -> Callable[[Function], Function]:
    """Gives a command the flags of these settings, and their values as its argument `settings`.

    A command takes only the flags that it uses; the other settings keep their defaults.
    """

    def decorate(function: Function) -> Function:
        @wraps(function)
        def with_settings(given: Given, **arguments: Any) -> Any:
            try:
                settings = given.settings
            except BadSetting as bad:  # settings that are good, but not together
                raise click.UsageError(str(bad)) from None
            return function(settings=settings, **arguments)

        return given_options(*names)(with_settings)

    return decorate


def given_options(*names: str) -> Callable[[Function], Function]:
    """Gives a command the flags of these settings, and the values that were given as `given`.

    For commands that take all other values from the project: see `connected.in_project`.
    """

    def decorate(function: Function) -> Function:
        @wraps(function)
        def with_given(**arguments: Any) -> Any:
            source = click.get_current_context().get_parameter_source
            values = {name: arguments.pop(name) for name in names}
            given = {name: values[name] for name in names if source(name) in EXPLICIT}
            security = _security() if "broker" in names else Security()
            return function(given=Given(given, security), **arguments)

        return spec_options({name: SPECS[name] for name in names})(with_given)

    return decorate


def _security() -> Security:
    """How to connect, by the environment; commands that start their own broker do not call this."""
    try:
        return Security.from_env()
    except BadSecurity as bad:
        raise click.UsageError(str(bad)) from None


def spec_options(specs: Mapping[str, Spec]) -> Callable[[Function], Function]:
    """Gives a command the flags of these settings, and their values under the same names."""
    return in_order(*map(_option, specs.values()))


def _option(spec: Spec) -> Callable[[Function], Function]:
    default: Any = spec.default
    is_list = isinstance(default, tuple)
    return click.option(
        "--" + spec.name.replace("_", "-"),
        spec.name,
        type=SettingType(spec),
        default=",".join(default) if is_list else default,
        envvar=variable(full_name(spec)),
        show_default=not is_list,
        show_envvar=True,
        help=spec.metadata["help"],
    )


# Runs the part of a command that uses Kafka; errors of Kafka become one line.


T = TypeVar("T")


def run_connected(work: Coroutine[Any, Any, T]) -> T:
    """Run the coroutine; errors of Kafka and of the project end the command with status 1."""
    logging.getLogger("aiokafka").setLevel(logging.CRITICAL)  # the error below is enough
    try:
        return asyncio.run(work)
    except WrongTopics as wrong:
        for mismatch in wrong.mismatches:
            click.echo(mismatch, err=True)
        raise click.ClickException(
            "nothing was changed; use the settings that the topics were created with, choose "
            "another --prefix, or alter the topics"
        ) from None
    except Refusal as refusal:
        for line in refusal.lines:
            click.echo(line, err=True)
        raise click.ClickException(refusal.way_out) from None
    except BadSetting as bad:
        raise click.UsageError(str(bad)) from None
    except ClusterError as error:
        raise click.ClickException(str(error)) from None


def in_project(given: Given, *, may_have_more_partitions: bool = False) -> Settings:
    """The settings of a tool: those of the project; other values are refused."""
    from sbic.project.opening import settings_in_project

    more = may_have_more_partitions
    return run_connected(settings_in_project(given, may_have_more_partitions=more))


# `--label-map FROM=TO`: maps labels to classes.


def mapping_of(pair: str, classes: Classes) -> tuple[str, int | str]:
    """Parse a pair: the original label, and the class or skip that it stands for.

    >>> mapping_of("yes=1", Classes.parse("-1,1")), mapping_of("Cat=cat", Classes.parse("cat,dog"))
    (('yes', 1), ('Cat', 'cat'))
    """
    came, equals, name = pair.rpartition("=")
    if not equals:
        raise BadInput(f"--label-map {shown(pair)} is not FROM=TO, such as yes=1")
    if name in classes.names:
        return came, classes.labels[classes.names.index(name)]
    if name == "0":
        return came, 0
    raise BadInput(
        f"--label-map {shown(pair)}: {shown(name)} is not one of {classes.listed()}, or 0 to skip"
    )


# Options of the commands that read a file: its columns and labels.


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
