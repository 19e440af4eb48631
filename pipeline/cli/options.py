"""Settings as command-line options: each `SBIC_*` variable is also a flag."""

from collections.abc import Callable
from functools import wraps
from typing import Any

import click
from click.core import ParameterSource

from pipeline.project.given import Given
from pipeline.security.errors import BadSecurity
from pipeline.security.security import Security
from pipeline.settings import SPECS, BadSetting, read_setting, variable

Function = Callable[..., Any]
EXPLICIT = (ParameterSource.COMMANDLINE, ParameterSource.ENVIRONMENT)


class SettingType(click.ParamType):
    """Reads one setting; a bad value is named with its flag and its variable."""

    def __init__(self, setting: str) -> None:
        self.setting = setting
        default = SPECS[setting].default
        kind: type = SPECS[setting].metadata["kind"] if default is None else type(default)
        self.name = kind.__name__

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> object:
        """The value, or a usage error."""
        if not isinstance(value, str):
            return value  # the default
        try:
            return read_setting(self.setting, value)
        except BadSetting as bad:
            self.fail(bad.problem, param, ctx)


def in_order(*options: Callable[[Function], Function]) -> Callable[[Function], Function]:
    """Several options as one decorator, in the order in which `--help` is to show them."""

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
            except BadSetting as bad:  # together, since each by itself is good
                raise click.UsageError(str(bad)) from None
            return function(settings=settings, **arguments)

        return given_options(*names)(with_settings)

    return decorate


def given_options(*names: str) -> Callable[[Function], Function]:
    """Gives a command the flags of these settings, and what is given of them as `given`.

    For commands that take what is not given from the project: see `connected.in_project`.
    """

    def decorate(function: Function) -> Function:
        @wraps(function)
        def with_given(**arguments: Any) -> Any:
            source = click.get_current_context().get_parameter_source
            values = {name: arguments.pop(name) for name in names}
            given = {name: values[name] for name in names if source(name) in EXPLICIT}
            security = _security() if "broker" in names else Security()
            return function(given=Given(given, security), **arguments)

        return in_order(*map(_option, names))(with_given)

    return decorate


def _security() -> Security:
    """How to connect, as the environment says: a command with a broker of its own does not ask."""
    try:
        return Security.from_env()
    except BadSecurity as bad:
        raise click.UsageError(str(bad)) from None


def _option(name: str) -> Callable[[Function], Function]:
    spec = SPECS[name]
    return click.option(
        "--" + name.replace("_", "-"),
        name,
        type=SettingType(name),
        default=spec.default,
        envvar=variable(name),
        show_default=True,
        show_envvar=True,
        help=spec.metadata["help"],
    )
