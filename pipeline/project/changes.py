"""Changes of a project's settings: which are possible, and which need a recount."""

from collections.abc import Iterable
from difflib import get_close_matches
from typing import Any, NamedTuple

from pipeline.classes import Classes
from pipeline.foreign import shown
from pipeline.inference.registry import ALGORITHMS, default_algorithm
from pipeline.kafka.errors import ClusterError
from pipeline.project.revision import PROJECT_SETTINGS, Revision, project_settings
from pipeline.settings import SPECS, Settings, read_setting

FIXED = ("partitions", "replication")
OF_THE_PAST = ("classes", "algorithm", "alpha", "beta", "prior", "class_prior", "repeats")
"""Settings whose change invalidates everything computed from the labels."""


class BadChange(ClusterError):
    """The project cannot be changed in this way."""


class Change(NamedTuple):
    """The new settings, the names of those that differ, and whether a recount is needed.

    `names` is empty if nothing differs.
    """

    settings: dict[str, Any]
    names: tuple[str, ...]
    needs_recount: bool


def read_assignments(texts: Iterable[str]) -> dict[str, str]:
    """Parse arguments of the form `NAME=VALUE`.

    >>> read_assignments(["alpha=3", "lease-seconds=60"])
    {'alpha': '3', 'lease_seconds': '60'}
    >>> read_assignments(["alfa=3"])
    Traceback (most recent call last):
    pipeline.project.changes.BadChange: alfa is not a setting of a project: did you mean alpha?
    """
    found: dict[str, str] = {}
    for text in texts:
        written, equals, value = text.partition("=")
        name = written.strip().replace("-", "_").lower()
        if not equals:
            raise BadChange(f"{shown(text)} is not NAME=VALUE, say alpha=3")
        if name not in PROJECT_SETTINGS:
            raise BadChange(_no_setting(written.strip(), name))
        if name in found:
            raise BadChange(f"{name} is given twice")
        found[name] = value.strip()
    return found


def _no_setting(written: str, name: str) -> str:
    if name in SPECS:
        flag = "--" + name.replace("_", "-")
        return f"{written} is a setting of each instance, not of the project: set it with {flag}"
    near = get_close_matches(name, PROJECT_SETTINGS, n=1)
    hint = f"did you mean {near[0]}?" if near else f"known are {', '.join(PROJECT_SETTINGS)}"
    return f"{written} is not a setting of a project: {hint}"


def change(revision: Revision, texts: dict[str, str], *, has_labels: bool) -> Change:
    """The change that these values make to the project; raises `BadChange` or `BadSetting`.

    >>> from pipeline.project.revision import FIRST
    >>> change(FIRST, {"policy": "uniform"}, has_labels=True)[1:]
    (('policy',), False)
    >>> pets = change(FIRST, {"classes": "cat,dog"}, has_labels=False)
    >>> pets.names, pets.needs_recount, pets.settings["algorithm"]
    (('classes', 'algorithm', 'class_prior'), True, 'settled')
    """
    before = revision.settings
    given = {name: read_setting(name, text) for name, text in texts.items()}
    for name in FIXED:
        if given.get(name, before[name]) != before[name]:
            raise BadChange(_fixed(name, before[name]))
    if has_labels and "classes" in given:
        _check_added(Classes.parse(before["classes"]), Classes.parse(given["classes"]))
    settings = project_settings(Settings(**_adjusted({**before, **given}, given)))
    names = tuple(name for name in PROJECT_SETTINGS if settings[name] != before[name])
    return Change(settings, names, bool(set(names) & set(OF_THE_PAST)))


def _adjusted(settings: dict[str, Any], given: dict[str, Any]) -> dict[str, Any]:
    """The settings, with those replaced that no longer fit and were not given."""
    found = dict(settings)
    signs = Classes.parse(found["classes"]).is_signs
    if "classes" in given and "algorithm" not in given and not signs:
        found["algorithm"] = default_algorithm(signs)
    settles = ALGORITHMS[found["algorithm"]].settles
    if settles and "prior" not in given:
        found["prior"] = SPECS["prior"].default
    if not settles and "class_prior" not in given:
        found["class_prior"] = None
    return found


def _fixed(name: str, value: object) -> str:
    if name == "replication":
        return (
            f"replication is {value}: change the number of replicas with Kafka's own "
            "kafka-reassign-partitions"
        )
    return (
        f"partitions is {value} and cannot be changed: create a project with another number under "
        "another --prefix (sbic topics --partitions N), and send it the labels"
    )


def _check_added(old: Classes, new: Classes) -> None:
    if new.names[: len(old)] != old.names or (old.is_signs and new != old):
        raise BadChange(
            f"the project has labels of the classes {','.join(old.names)}: "
            + ("names can only be added at the end" if not old.is_signs else "they cannot change")
            + "; choose another --prefix for others, or delete the labels with sbic project reset"
        )
