"""What subcommands share: settings as options, errors in one line, maps of labels, columns."""

import asyncio
import codecs
import csv
import logging
import os
import re
import signal
import sys
from collections.abc import Callable, Coroutine, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import wraps
from typing import TYPE_CHECKING, Any, TypeVar

import click
from click.core import ParameterSource

from sbic.classes import Classes
from sbic.commands import tell
from sbic.files.labels import Reading
from sbic.foreign import printable, shown
from sbic.integrations.label_studio import Choices
from sbic.kafka.errors import ClusterError, WrongTopics
from sbic.kafka.rights import SINK_NAME
from sbic.project.opening import RefusedSettings, settings_in_project
from sbic.project.revision import Given
from sbic.project.security import BadSecurity, Security, read_secret
from sbic.project.settings import SPECS, BadSetting, Settings, Spec, variable

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry


class BadInput(click.ClickException):
    """The input is wrong; the message says what and where. Exit status 2."""

    exit_code = 2


def for_output(data: str) -> str:
    """Return data for standard output: as it is for a file or a pipe, filtered for a terminal."""
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
        shown = spec.kind if isinstance(spec.kind, type) else type(spec.default)
        self.name = "list" if shown is tuple else shown.__name__

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> object:
        """Return the value; a bad one is a usage error."""
        if not isinstance(value, str):
            return value  # the default
        try:
            return self.spec.read(value)
        except BadSetting as bad:
            self.fail(bad.problem, param, ctx)


def in_order(*options: Callable[[Function], Function]) -> Callable[[Function], Function]:
    """Combine options into one decorator, in the order in which `--help` shows them."""

    def decorate(function: Function) -> Function:
        for option in reversed(options):
            function = option(function)
        return function

    return decorate


def settings_options(*names: str) -> Callable[[Function], Function]:
    """Give a command the flags of these settings, and their values as its argument `settings`.

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
    """Give a command the flags of these settings, and the values that were given as `given`.

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
    """Give a command the flags of these settings, and their values under the same names."""
    return in_order(*map(_option, specs.values()))


def _option(spec: Spec) -> Callable[[Function], Function]:
    default: Any = spec.default
    is_list = isinstance(default, tuple)
    return click.option(
        spec.flag,
        spec.name,
        cls=JoinedOption if spec.name == "classes" else click.Option,
        type=SettingType(spec),
        default=",".join(default) if is_list else default,
        envvar=variable(spec.full_name),
        show_default=not is_list,
        show_envvar=True,
        help=spec.help,
    )


class JoinedOption(click.Option):
    """An option with a list of names, or given once for each of them: then none has a comma."""

    def add_to_parser(self, parser: Any, ctx: click.Context) -> None:
        """Let the parser keep all values, not the last one."""
        self.multiple = True
        super().add_to_parser(parser, ctx)
        self.multiple = False

    def consume_value(
        self, ctx: click.Context, opts: Mapping[str, Any]
    ) -> tuple[Any, ParameterSource]:
        """Return the values on the command line as one, or the variable, or the default."""
        value, source = super().consume_value(ctx, opts)
        if not isinstance(value, list):
            return value, source
        for name in value:
            if len(value) > 1 and "," in name:
                problem = (
                    f"given {len(value)} times, each is one name, and {shown(name)} has a comma"
                )
                raise click.BadParameter(problem, ctx, self)
        return ",".join(value), source


# Runs the part of a command that uses Kafka; errors of Kafka become one line.


T = TypeVar("T")


def run_connected(work: Coroutine[Any, Any, T]) -> T:
    """Run the coroutine; errors of Kafka and of the project end the command with status 1."""
    logging.getLogger("aiokafka").setLevel(logging.CRITICAL)  # the error below is enough
    try:
        return asyncio.run(work)
    except WrongTopics as wrong:
        for mismatch in wrong.mismatches:
            tell(mismatch)
        raise click.ClickException(
            "nothing was changed; use the settings that the topics were created with, choose "
            "another --prefix, or alter the topics"
        ) from None
    except RefusedSettings as refusal:
        for line in refusal.lines:
            tell(line)
        raise click.ClickException(refusal.way_out) from None
    except BadSetting as bad:
        raise click.UsageError(str(bad)) from None
    except ClusterError as error:
        raise click.ClickException(str(error)) from None


def sink_name_option(default: str) -> Callable[[Function], Function]:
    """`--name`, which status calls a sink."""

    def check(_context: click.Context, _option: click.Parameter, name: str | None) -> str | None:
        if name is not None and not SINK_NAME.fullmatch(name):
            raise click.BadParameter("1 to 64 letters, digits, dots, hyphens and underscores")
        return name

    return click.option(
        "--name",
        metavar="NAME",
        callback=check,
        help=f"What sbic status and the page call it.  [default: {default}]",
    )


def metrics_options(function: Function) -> Function:
    """`--metrics-port` and `--metrics-host`, of a command that runs on."""
    options = (
        click.option(
            "--metrics-port",
            type=click.IntRange(0, 65535),
            help="Serve /metrics on this port of 127.0.0.1.  [default: not at all]",
        ),
        click.option(
            "--metrics-host",
            default="127.0.0.1",
            show_default=True,
            help="Serve /metrics on this address.",
        ),
    )
    return in_order(*options)(function)


def serve_metrics(registry: "CollectorRegistry", host: str, port: int) -> None:
    """Serve /metrics in a thread."""
    from prometheus_client import start_http_server

    try:
        start_http_server(port, host, registry)
    except OSError as error:
        raise click.ClickException(
            f"cannot listen on {host}, port {port}: {error.strerror}; choose another with "
            "--metrics-port"
        ) from None


async def until_stopped(work: Coroutine[Any, Any, None]) -> None:
    """Run until the work ends, or a signal ends it."""
    task = asyncio.ensure_future(work)
    for ending in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(ending, task.cancel)
    with suppress(asyncio.CancelledError):
        await task


def in_project(given: Given, *, may_have_more_partitions: bool = False) -> Settings:
    """Return the settings of a tool: those of the project; other values are refused."""
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
    label = classes.label_named(name)
    if label is None:
        problem = f"{shown(name)} is not one of {classes.listed()}, or 0 to skip"
        raise BadInput(f"--label-map {shown(pair)}: {problem}")
    return came, label


def choices_of(
    settings: Settings, pairs: tuple[str, ...], *, control: str | None = None, what: str = "choice"
) -> Choices:
    """Return how the labels of a tool are read, with those that `--label-map` gives."""
    classes = settings.crowd_classes
    return Choices(classes, control, dict(mapping_of(pair, classes) for pair in pairs), what)


def tool_url(url: str) -> str:
    """Check the address of a tool."""
    if not url.startswith(("http://", "https://")) or "@" in url:
        raise BadInput("URL is http:// or https:// and a host, without a user or a password")
    return url


def tool_token(name: str) -> str | None:
    """Return the token of a tool, from its variable or the file that one names."""
    try:
        token = read_secret(name, {name: text for name, text in os.environ.items() if text})
    except BadSecurity as error:
        raise BadInput(str(error)) from None
    return None if token is None else token.reveal()


def label_map_option(what: str) -> Callable[[Function], Function]:
    """`--label-map`, for the labels, or choices, that a command reads."""
    return click.option(
        "--label-map",
        "label_map",
        metavar=f"{what.upper()}=CLASS",
        multiple=True,
        help=f"Send a {what} as this class, such as Yes=1; 0 is a skip. Can be repeated.",
    )


def mapped_in_file(pairs: tuple[str, ...], classes: Classes) -> dict[str, str]:
    """Return the labels that others in a file stand for; a skip is empty.

    >>> mapped_in_file(("yes=1", "?=0"), Classes.parse("-1,1"))
    {'yes': '1', '?': ''}
    """
    found = dict(mapping_of(pair, classes) for pair in pairs)
    return {came: "" if label == 0 else str(label) for came, label in found.items()}


# Options of the commands that read a file: its columns and labels.


class NamesType(click.ParamType):
    """Names separated by commas; one with a comma in it is quoted, as in CSV."""

    name = "list"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, ...]:
        """Return the names, none of them empty."""
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


def one_by_one(
    ctx: click.Context, param: click.Parameter, values: tuple[str, ...]
) -> tuple[str, ...] | None:
    """Return the names of an option: separated by commas if given once, else one each time.

    >>> one_by_one(None, None, ("cat,dog",)), one_by_one(None, None, ("yes, sure", "no"))
    (('cat', 'dog'), ('yes, sure', 'no'))
    """
    found = [NamesType().convert(value, param, ctx) for value in values]
    if len(found) <= 1:
        return found[0] if found else None
    return tuple(
        names[0] if len(names) == 1 else value.strip()
        for names, value in zip(found, values, strict=True)
    )


class EncodingType(click.ParamType):
    """The name of an encoding of text."""

    name = "encoding"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the name, if Python knows it."""
        try:
            bytes(4).decode(value)
            return codecs.lookup(value).name
        except (LookupError, ValueError):
            self.fail(f"{shown(value)} is not an encoding, such as cp1252", param, ctx)


class SizeType(click.ParamType):
    """A number of bytes, with or without a unit: 500MB, 8 GB."""

    name = "size"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Return the number of bytes."""
        if isinstance(value, int):
            return value
        found = re.fullmatch(r"(\d{1,9}(?:\.\d{1,9})?) *([kMGT]?)B?", value.strip(), re.IGNORECASE)
        if not found or not float(found[1]):
            self.fail(f"{shown(value)} is not a size, such as 500MB or 8GB", param, ctx)
        return int(float(found[1]) * 1000 ** " kmgt".index(found[2].lower() or " "))


max_size_option = click.option(
    "--max-size",
    type=SizeType(),
    default="4GB",
    show_default=True,
    help="The most that a file may have in it, unpacked; a larger one is refused.",
)


class ColumnsType(click.ParamType):
    """Fields with their columns: `task=HITId,label=Answer`."""

    name = "columns"

    def __init__(self, fields: tuple[str, ...]) -> None:
        self.fields = fields

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> dict[str, str]:
        """Return the column of each field given."""
        columns: dict[str, str] = {}
        for pair in NamesType().convert(value, param, ctx):
            field, _, column = (part.strip() for part in pair.partition("="))
            if field not in self.fields or not column:
                known = ", ".join(self.fields)
                self.fail(f"{shown(pair)} is not FIELD=COLUMN with a field of {known}", param, ctx)
            if field in columns:
                self.fail(f"the field {shown(field)} is given twice", param, ctx)
            columns[field] = column
        return columns


def reading_options(
    *fields: str, example: str, classes: bool = True, skip: bool = True, labels: bool = True
) -> Callable[[Function], Function]:
    """Give a command the options for reading a file, as its argument `reading`.

    `classes` and `skip` are whether to include the options of these names, `labels` whether to
    include those of files that have labels.
    """
    names = ["columns", "encoding", "max_size"]
    names += ["positive", "negative", "ignore_case"] * labels
    names += ["classes"] * classes + ["skip"] * skip
    options = [
        click.option(
            "--columns",
            type=ColumnsType(fields),
            metavar="FIELD=COLUMN,...",
            help=f"Columns of {', '.join(fields)} with other names, such as {example}.",
        ),
    ]
    if labels:
        options += [
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
                multiple=True,
                callback=one_by_one,
                metavar="LABEL,...",
                help="All classes in order, such as cat,dog,bird; or one each time, repeated. Any "
                "other label is an error.",
            )
        )
    if skip:
        options.append(
            click.option(
                "--skip",
                multiple=True,
                callback=one_by_one,
                metavar="LABEL,...",
                help="Labels that are skips, such as 0 or unsure. An empty label always is.",
            )
        )
    if labels:
        options.append(
            click.option(
                "--ignore-case",
                is_flag=True,
                help="Labels that differ only in case, such as Yes and yes, are one.",
            )
        )
    options += [
        click.option(
            "--encoding",
            type=EncodingType(),
            help="Of the file, such as cp1252, which Excel writes in western Europe.  "
            "[default: UTF-8, or by the byte order mark]",
        ),
        max_size_option,
    ]

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
    skip = (*reading.skip, "0") if classes.are_grades else reading.skip
    where = "the classes of the project"
    try:
        return replace(reading, classes=classes.names, classes_from=where, skip=skip)
    except ValueError as error:
        raise click.UsageError(str(error)) from error
