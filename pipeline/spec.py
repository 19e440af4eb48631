"""How a setting is described: its default, help and check, once for flags, variables and docs."""

from collections.abc import Callable
from dataclasses import Field, field, fields
from typing import Any

from pipeline.foreign import shown

Spec = Field[Any]
"""A field of a dataclass of settings, made by `setting`; `metadata` has the rest."""


class BadSetting(ValueError):
    """A setting has a value it cannot have; says which, what it needs and what it has, and why."""

    def __init__(self, name: str, needs: str, value: object, why: str = "") -> None:
        self.name = name
        self.problem = f"must be {needs}, not {shown(value)}" + (f": {why}" if why else "")
        super().__init__(f"{variable(name)} {self.problem}")


def variable(name: str) -> str:
    """The environment variable of a setting.

    >>> variable("web_port")
    'SBIC_WEB_PORT'
    """
    return f"SBIC_{name.upper()}"


def setting(
    default: Any,
    help_text: str,
    needs: str,
    good: Callable[[Any], bool],
    kind: Callable[[str], Any] | None = None,
    group: str = "",
) -> Any:
    """A field that is a setting; with the default `None` it is off until it has a value.

    `kind` converts the text of the setting, `good` accepts its value or raises `ValueError` with
    the reason. The variable has the `group` in its name: SBIC_GATEWAY_PORT.
    """
    metadata = {
        "help": help_text,
        "needs": needs,
        "good": good,
        "kind": kind or type(default),
        "group": group,
    }
    return field(default=default, metadata=metadata)


def specs_of(settings: type) -> dict[str, Spec]:
    """The settings of a dataclass, by name; fields made otherwise are left out."""
    return {spec.name: spec for spec in fields(settings) if "needs" in spec.metadata}


def full_name(spec: Spec) -> str:
    """The name of a setting with its group: `variable` makes the variable of it."""
    group = spec.metadata["group"]
    return f"{group}_{spec.name}" if group else spec.name


def check_value(spec: Spec, value: Any, given: object) -> None:
    """Raise `BadSetting` unless the value is good; `given` is the value as it was written."""
    why = ""
    try:
        good = spec.metadata["good"](value)
    except ValueError as error:
        good, why = False, str(error)
    if not good:
        raise BadSetting(full_name(spec), spec.metadata["needs"], given, why)


def check_values(settings: object, specs: dict[str, Spec]) -> None:
    """Raise `BadSetting` unless the values of all settings are good, each by itself."""
    for name, spec in specs.items():
        value = getattr(settings, name)
        if value is not None or spec.default is not None:
            check_value(spec, value, given=value)


def read_value(spec: Spec, text: str) -> Any:
    """The value of a setting's text, checked; raises `BadSetting`."""
    try:
        value = spec.metadata["kind"](text)
    except (ValueError, KeyError):
        raise BadSetting(full_name(spec), spec.metadata["needs"], text) from None
    check_value(spec, value, given=text)
    return value
