"""The records of the project topic: each is a revision; what a user gave, compared with it."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal, NamedTuple, Self, cast, get_args

from orjson import JSONDecodeError, dumps, loads

from sbic.classes import Classes
from sbic.project.security import Security
from sbic.project.settings import (
    SPECS,
    BadSetting,
    Settings,
    class_prior_of,
    read_setting,
    variable,
)

# The records of the project topic: each is a revision of the project.
#
# A revision is valid only if its number is one above that of the last valid one. So of two
# published at the same time the first wins, for all readers, and any other record is ignored.


FORMAT = 1
VALUE_MAX_BYTES = 256 * 1024

State = Literal["ready", "recounting", "rotating", "resetting", "deleting"]

PROJECT_SETTINGS = (
    "partitions",
    "replication",
    "labels_retention_hours",
    "retention_hours",
    "classes",
    "algorithm",
    "alpha",
    "beta",
    "prior",
    "class_prior",
    "settle_tolerance",
    "repeats",
    "seed",
    "policy",
    "lease_seconds",
)
"""The settings that belong to the project, not to an instance."""


@dataclass(frozen=True)
class Revision:
    """The project from this revision on.

    `topics` has the id of each topic, `seal` that of the key in force. In any state but `ready` a
    command is recreating or deleting topics, and instances have to wait.
    """

    number: int
    settings: Mapping[str, Any]
    topics: Mapping[str, str]
    state: State = "ready"
    seal: str = ""

    def next(self, **changes: Any) -> "Revision":
        """The revision after this one."""
        return replace(self, number=self.number + 1, **changes)

    def apply_to(self, settings: Settings) -> Settings:
        """The settings, with those of the project replaced."""
        return replace(settings, **self.settings)


def project_settings(settings: Settings) -> dict[str, Any]:
    """The settings that belong to the project, with the defaults that depend on others filled in.

    >>> found = project_settings(Settings(classes="cat, dog"))
    >>> found["classes"], found["algorithm"], found["class_prior"]
    ('cat,dog', 'settled', 'learned')
    """
    found = {name: getattr(settings, name) for name in PROJECT_SETTINGS}
    found["classes"] = ",".join(settings.crowd_classes.names)
    found["algorithm"] = settings.chosen_algorithm
    if settings.algorithm_entry.settles and settings.class_prior is None:
        found["class_prior"] = "learned"
    return found


def encode_revision(revision: Revision) -> bytes:
    """Encode a revision as the value of a record.

    >>> parse_revision(encode_revision(FIRST)) == FIRST
    True
    """
    return dumps(
        {
            "format": FORMAT,
            "revision": revision.number,
            "state": revision.state,
            "settings": dict(revision.settings),
            "topics": dict(revision.topics),
            "seal": revision.seal,
        }
    )


def parse_revision(value: bytes | None) -> Revision | None:
    """Parse the value of a record; None if it is not a revision.

    >>> parse_revision(b"[]"), parse_revision(b'{"format":1,"revision":1,"settings":{"alpha":0}}')
    (None, None)
    """
    if value is None or len(value) > VALUE_MAX_BYTES:
        return None
    try:
        record = loads(value)
        if type(record) is not dict or record.get("format") != FORMAT:
            return None
        number, state = record["revision"], record["state"]
        if type(number) is not int or state not in get_args(State):
            return None
        settings = _settings(record["settings"])
        topics = record["topics"]
        seal = record.get("seal", "")  # projects of earlier versions have none
        if type(seal) is not str:
            return None
        if not all(type(name) is str and type(value) is str for name, value in topics.items()):
            return None
    except (JSONDecodeError, BadSetting, AttributeError, KeyError, TypeError):
        return None
    return Revision(number, settings, topics, cast(State, state), seal)


def _settings(values: Mapping[str, object]) -> dict[str, Any]:
    """The settings of a record; raises unless they are valid, each and together."""
    read: dict[str, Any] = {
        name: None if values[name] is None else read_setting(name, str(values[name]))
        for name in PROJECT_SETTINGS
    }
    return project_settings(Settings(**read))


def last_revision(
    values: Iterable[bytes | None], before: Revision | None = None
) -> Revision | None:
    """The last valid revision, after one that is already known.

    >>> second, rival = FIRST.next(), FIRST.next(state="deleting")
    >>> records = [b"{", encode_revision(FIRST), encode_revision(second), encode_revision(rival)]
    >>> last_revision(records) == second
    True
    """
    last = before
    for value in values:
        found = parse_revision(value)
        if found is not None and found.number == (last.number + 1 if last else 1):
            last = found
    return last


FIRST = Revision(1, project_settings(Settings()), {})
"""A project with default settings, before its topics are known."""


# The settings that the user gave, by flags or variables.


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


# Compares the settings given by the user with those of the project.


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

    >>> from sbic.project.revision import FIRST
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
