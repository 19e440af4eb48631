"""The records of the project topic: each is a revision; what a user gave, compared with it.

A revision is valid only if its number is one above that of the last valid one. So of two
published at the same time the first wins, for all readers, and any other record is ignored.
"""

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal, NamedTuple, Self, cast, get_args

from orjson import dumps, loads

from sbic.project.security import Security
from sbic.project.settings import PROJECT_SETTINGS, SPECS, Settings, variable
from sbic.wire.bad import BadRecord, parser

FORMAT = 1
VALUE_MAX_BYTES = 256 * 1024

ProjectState = Literal[
    "ready",
    "recounting",
    "rotating",
    "resetting",
    "deleting",
    "copying",
    "repartitioning",
    "filling",
]


@dataclass(frozen=True)
class Revision:
    """The project from this revision on.

    `topics` has the id of each topic, `seal` that of the key in force, `copy_of` the prefix that is
    being copied, `partitions_before` the number that topics have while a copy of them is made that
    has another. In any state but `ready` a command is recreating or deleting topics, or filling
    them, and instances have to wait.

    `forwarded` has, by the id of a topic, the offset in each partition before which misplaced
    records were forwarded already: a recount reads them again. Another copy would be newer than
    what users have written since.
    """

    number: int
    settings: Mapping[str, Any]
    topics: Mapping[str, str]
    state: ProjectState = "ready"
    seal: str = ""
    copy_of: str = ""
    partitions_before: int = 0
    forwarded: Mapping[str, list[int]] = field(default_factory=dict)

    def next(self, **changes: Any) -> "Revision":
        """Return the revision after this one."""
        return replace(self, number=self.number + 1, **changes)

    def is_followed_by(self, later: "Revision") -> bool:
        """Whether a process can go on with a later revision at once: only such settings differ."""
        same = later.state, later.topics, later.seal, later.forwarded
        return same == (self.state, self.topics, self.seal, self.forwarded) and all(
            SPECS[name].change == "at once" or later.settings[name] == value
            for name, value in self.settings.items()
        )

    @property
    def forwarded_before(self) -> dict[tuple[str, int], int]:
        """The offsets of `forwarded` by topic and partition."""
        return {
            (topic, partition): offset
            for topic, topic_id in self.topics.items()
            for partition, offset in enumerate(self.forwarded.get(topic_id, ()))
        }

    def apply_to(self, settings: Settings) -> Settings:
        """Return the settings, with those of the project replaced."""
        return replace(settings, **self.settings)


def project_settings(settings: Settings) -> dict[str, Any]:
    """Return the settings of the project; defaults that depend on others are filled in.

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
            "copy_of": revision.copy_of,
            "partitions_before": revision.partitions_before,
            "forwarded": dict(revision.forwarded),
        }
    )


def parse_revision(value: bytes | None) -> Revision | None:
    """Parse the value of a record; None if it is not a revision.

    >>> parse_revision(b"[]"), parse_revision(b'{"format":1,"revision":1,"settings":{"alpha":0}}')
    (None, None)
    """
    with suppress(BadRecord):
        return _read_revision(value)
    return None


@parser
def _read_revision(value: bytes | None) -> Revision:
    """Parse a revision; whatever is wrong with one that others wrote becomes `BadRecord`."""
    if value is None or len(value) > VALUE_MAX_BYTES:
        raise ValueError("too large, or nothing")
    record = loads(value)
    number, state, topics = record["revision"], record["state"], record["topics"]
    seal = record.get("seal", "")  # projects of earlier versions have none
    copy_of = record.get("copy_of", "")
    before, forwarded = record.get("partitions_before", 0), record.get("forwarded", {})
    numbers = [number, before, *(each for found in forwarded.values() for each in found)]
    texts = [seal, copy_of, *topics.keys(), *topics.values()]
    known = record["format"] == FORMAT and state in get_args(ProjectState)
    if not known or {*map(type, texts)} - {str} or {*map(type, numbers)} - {int}:
        raise ValueError("not a revision")
    return Revision(
        number,
        _settings(record["settings"]),
        topics,
        cast(ProjectState, state),
        seal,
        copy_of,
        before,
        forwarded,
    )


def _settings(values: Mapping[str, object]) -> dict[str, Any]:
    """Return the settings of a record; raise unless they are valid, each and together.

    A setting that came with a later version has its default.
    """
    known = {name: values.get(name, SPECS[name].default) for name in PROJECT_SETTINGS}
    read: dict[str, Any] = {
        name: None if value is None else SPECS[name].read(str(value))
        for name, value in known.items()
    }
    return project_settings(Settings(**read))


def last_revision(
    values: Iterable[bytes | None], before: Revision | None = None
) -> Revision | None:
    """Return the last valid revision, after one that is already known.

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
        """Return the settings that differ from their defaults.

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
        """Return a copy with these values added or replaced."""
        return Given({**self.values, **values}, self.security)


# Compares the settings given by the user with those of the project.


class Difference(NamedTuple):
    """A setting given with another value than the project has."""

    prefix: str
    name: str
    has: Any
    given: Any

    def __str__(self) -> str:
        """Return the difference in one line.

        >>> print(Difference("birds", "alpha", 2.0, 3.0))
        alpha is 2.0 in the project birds, not 3.0 (--alpha or SBIC_ALPHA); to change it: \
sbic project set --prefix birds alpha=3.0
        >>> print(Difference("birds", "partitions", 8, 16))
        partitions is 8 in the project birds, not 16 (--partitions or SBIC_PARTITIONS); to change \
it: sbic project repartition 16 --prefix birds
        """
        has = "nothing" if self.has is None else self.has
        change = f"set --prefix {self.prefix} {self.name}={self.given}"
        if self.name == "partitions":
            change = f"repartition {self.given} --prefix {self.prefix}"
        return (
            f"{self.name} is {has} in the project {self.prefix}, not {self.given} "
            f"({SPECS[self.name].flag} or {variable(self.name)}); to change it: "
            f"sbic project {change}"
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
        and not SPECS[name].means_the_same(given.values[name], revision.settings[name])
    ]
