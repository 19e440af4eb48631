"""The settings that the user gave, by flags or variables."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Self

from pipeline.security.security import Security
from pipeline.settings import SPECS, Settings


@dataclass(frozen=True)
class Given:
    """The values given, by setting; all others come from the project.

    >>> given = Given({"prefix": "birds", "alpha": 3.0})
    >>> given.settings.alpha, given.settings.beta, given.with_values(alpha=4.0).values["alpha"]
    (3.0, 1.0, 4.0)
    """

    values: Mapping[str, Any] = field(default_factory=dict)
    security: Security = field(default_factory=Security)

    @classmethod
    def of(cls, settings: Settings) -> Self:
        """The settings that differ from their defaults.

        >>> Given.of(Settings(prefix="birds", alpha=3.0)).values
        {'prefix': 'birds', 'alpha': 3.0}
        """
        values = {name: getattr(settings, name) for name in SPECS}
        other = {name: v for name, v in values.items() if v != SPECS[name].default}
        return cls(other, settings.security)

    @cached_property
    def settings(self) -> Settings:
        """These settings, with defaults for the others; raises `BadSetting`."""
        return Settings(**self.values, security=self.security)

    @property
    def place(self) -> Settings:
        """Broker and prefix of the project, with defaults for all other settings."""
        names = ("broker", "prefix")
        known = {name: self.values[name] for name in names if name in self.values}
        return Settings(**known, security=self.security)

    def with_values(self, **values: object) -> "Given":
        """A copy with these values added or replaced."""
        return Given({**self.values, **values}, self.security)
