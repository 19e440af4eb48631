"""Compares the settings given by the user with those of the project."""

from typing import Any, NamedTuple

from pipeline.classes import Classes
from pipeline.project.given import Given
from pipeline.project.revision import PROJECT_SETTINGS, Revision
from pipeline.setting_values import class_prior_of
from pipeline.settings import variable


class Difference(NamedTuple):
    """A setting given with another value than the project has."""

    prefix: str
    name: str
    has: Any
    given: Any

    def __str__(self) -> str:
        """The difference in one line.

        >>> print(Difference("birds", "alpha", 2.0, 3.0))
        alpha is 2.0 in the project birds, not 3.0 (--alpha or SBIC_ALPHA); to change it: \
sbic project set --prefix birds alpha=3.0
        """
        flag = "--" + self.name.replace("_", "-")
        has = "nothing" if self.has is None else self.has
        return (
            f"{self.name} is {has} in the project {self.prefix}, not {self.given} "
            f"({flag} or {variable(self.name)}); to change it: "
            f"sbic project set --prefix {self.prefix} {self.name}={self.given}"
        )


def differences(revision: Revision, given: Given) -> list[Difference]:
    """All settings given with other values than the project has.

    >>> from pipeline.project.revision import FIRST
    >>> differences(FIRST, Given({"alpha": 2.0, "classes": "1, -1", "web_port": 7000}))
    []
    >>> [found.name for found in differences(FIRST, Given({"alpha": 3.0, "classes": "cat,dog"}))]
    ['classes', 'alpha']
    """
    return [
        Difference(given.place.prefix, name, revision.settings[name], given.values[name])
        for name in PROJECT_SETTINGS
        if name in given.values
        and _meaning(name, given.values[name]) != _meaning(name, revision.settings[name])
    ]


def _meaning(name: str, value: Any) -> object:
    """The meaning of a value, independent of how it is written."""
    if value is None:
        return None
    if name == "classes":
        return Classes.parse(value)
    return class_prior_of(value) if name == "class_prior" else value
