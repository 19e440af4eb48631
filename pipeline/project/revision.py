"""The records of the project topic: each is a revision of the project.

A revision is valid only if its number is one above that of the last valid one. So of two published
at the same time the first wins, for all readers, and any other record is ignored.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, cast, get_args

from orjson import JSONDecodeError, dumps, loads

from pipeline.settings import BadSetting, Settings, read_setting

FORMAT = 1
VALUE_MAX_BYTES = 256 * 1024

State = Literal["ready", "recounting", "resetting", "deleting"]

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

    `topics` has the id of each topic. In any state but `ready` a command is recreating or deleting
    topics, and instances have to wait.
    """

    number: int
    settings: Mapping[str, Any]
    topics: Mapping[str, str]
    state: State = "ready"

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
        if not all(type(name) is str and type(value) is str for name, value in topics.items()):
            return None
    except (JSONDecodeError, BadSetting, AttributeError, KeyError, TypeError):
        return None
    return Revision(number, settings, topics, cast(State, state))


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
