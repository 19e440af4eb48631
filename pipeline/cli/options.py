"""Settings as command-line options: each `SBIC_*` variable is also a flag, with the same help."""

from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any

import click
from click.core import ParameterSource

from pipeline.project.given import Given
from pipeline.security.errors import BadSecurity
from pipeline.security.security import Security
from pipeline.settings import SPECS, BadSetting, variable
from pipeline.spec import Spec, full_name, read_value

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
