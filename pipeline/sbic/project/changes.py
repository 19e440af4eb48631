"""Changes of a project's settings; counting is followed."""

import asyncio
from collections.abc import Iterable
from difflib import get_close_matches
from time import monotonic
from typing import Any, NamedTuple

from sbic.classes import Classes
from sbic.foreign import shown
from sbic.infer.registry import ALGORITHMS, default_algorithm
from sbic.kafka.admin import Extents, extents
from sbic.kafka.errors import ClusterError
from sbic.kafka.groups import committed_offsets, group_members
from sbic.progress import progress
from sbic.project.opening import Unfinished, append, existing_project
from sbic.project.revision import Revision, project_settings
from sbic.project.settings import PROJECT_SETTINGS, SPECS, Settings
from sbic.project.topics import Topics


class BadChange(ClusterError):
    """The project cannot be changed in this way."""


class Change(NamedTuple):
    """The new settings, and the names of those that differ."""

    settings: dict[str, Any]
    names: tuple[str, ...]

    @property
    def needs_recount(self) -> bool:
        """Whether all labels have to be counted again."""
        return any(SPECS[name].change == "recount" for name in self.names)

    @property
    def is_followed(self) -> bool:
        """Whether running instances and gateways follow it without a restart."""
        return all(SPECS[name].change == "at once" for name in self.names)


def read_assignments(texts: Iterable[str]) -> dict[str, str]:
    """Parse arguments of the form `NAME=VALUE`.

    >>> read_assignments(["alpha=3", "lease-seconds=60"])
    {'alpha': '3', 'lease_seconds': '60'}
    >>> read_assignments(["alfa=3"])
    Traceback (most recent call last):
    sbic.project.changes.BadChange: alfa is not a setting of a project: did you mean alpha?
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
        return (
            f"{written} is a setting of each process, not of the project: set it with "
            f"{SPECS[name].flag}"
        )
    near = get_close_matches(name, PROJECT_SETTINGS, n=1)
    hint = f"did you mean {near[0]}?" if near else f"known are {', '.join(PROJECT_SETTINGS)}"
    return f"{written} is not a setting of a project: {hint}"


def change(revision: Revision, texts: dict[str, str], *, has_labels: bool) -> Change:
    """Return the change that these values make to the project; raise `BadChange` or `BadSetting`.

    >>> from sbic.project.revision import FIRST
    >>> change(FIRST, {"policy": "uniform", "budget": "none"}, has_labels=True).names
    ('policy',)
    >>> pets = change(FIRST, {"classes": "cat,dog"}, has_labels=False)
    >>> pets.names, pets.needs_recount, pets.settings["algorithm"]
    (('classes', 'algorithm', 'class_prior'), True, 'settled')
    """
    before = revision.settings
    given = {name: SPECS[name].read_or_none(text) for name, text in texts.items()}
    for name, value in given.items():
        if SPECS[name].change == "never" and value != before[name]:
            raise BadChange(
                f"{name} is {before[name]} and cannot be changed here: {SPECS[name].instead}"
            )
    if has_labels and "classes" in given:
        _check_added(Classes.parse(before["classes"]), Classes.parse(given["classes"]))
    settings = project_settings(Settings(**_adjusted({**before, **given}, given)))
    names = tuple(name for name in PROJECT_SETTINGS if settings[name] != before[name])
    return Change(settings, names)


async def change_rules(place: Settings, texts: dict[str, str]) -> Revision:
    """Change rules of a project, which everybody follows at once; return the revision in force.

    Raises `BadChange` for other settings, `BadSetting`, `NoProject`, `Unfinished` and `Conflict`.
    """
    revision = await existing_project(place)
    if revision.state != "ready":
        raise Unfinished(place.prefix, revision.state)
    changed = change(revision, texts, has_labels=True)
    if not changed.is_followed:
        raise BadChange(f"change {', '.join(changed.names)} with sbic project set")
    if not changed.names:
        return revision
    after = revision.next(settings=changed.settings)
    await append(place, after)
    return after


def _adjusted(settings: dict[str, Any], given: dict[str, Any]) -> dict[str, Any]:
    """Return the settings, with those replaced that no longer fit and were not given."""
    found = dict(settings)
    signs = Classes.parse(found["classes"]).is_signs
    if found["algorithm"] is None or (
        "classes" in given and "algorithm" not in given and not signs
    ):
        found["algorithm"] = default_algorithm(signs)
    settles = ALGORITHMS[found["algorithm"]].settles
    if settles and "prior" not in given:
        found["prior"] = SPECS["prior"].default
    if not settles and "class_prior" not in given:
        found["class_prior"] = None
    return found


def _check_added(old: Classes, new: Classes) -> None:
    if new.names[: len(old)] != old.names or (old.is_signs and new != old):
        raise BadChange(
            f"the project has labels of the classes {','.join(old.names)}: "
            + ("names can only be added at the end" if not old.is_signs else "they cannot change")
            + "; choose another --prefix for others, or delete the labels with sbic project reset"
        )


# Follows the progress of instances in counting the labels of a project.


LOOK_SECONDS = 0.5


class Count(NamedTuple):
    """The number of labels, and how many of them are counted in posteriors."""

    labels: int
    counted: int

    @property
    def is_complete(self) -> bool:
        """Whether all labels are counted."""
        return self.counted == self.labels


async def follow_counting(settings: Settings, patience: float) -> Count:
    """Show a bar until all labels are counted; give up after `patience` without an instance."""
    seen = monotonic()
    count = await count_of(settings)
    with progress("Counting", total=count.labels) as advance:
        shown = 0
        while not count.is_complete:
            if await group_members(settings):
                seen = monotonic()
            elif monotonic() - seen > patience:
                break
            await asyncio.sleep(LOOK_SECONDS)
            count = await count_of(settings)
            advance(count.counted - shown)
            shown = count.counted
    return count


async def count_of(settings: Settings) -> Count:
    """Return the labels processed so far; at most all but one while votes are in flight."""
    labels, votes = Topics(settings).labels.name, Topics(settings).votes.name
    found = await extents(settings, [labels, votes])
    all_labels, processed = await _offsets(settings, labels, found)
    all_votes, counted = await _offsets(settings, votes, found)
    in_flight = counted != all_votes
    return Count(all_labels, min(processed, all_labels - 1) if in_flight else processed)


async def _offsets(settings: Settings, topic: str, found: Extents) -> tuple[int, int]:
    """How many records a topic has, and how many of them the group has committed."""
    committed = await committed_offsets(settings, settings.prefix, topic)
    of_topic = {tp.partition: extent for tp, extent in found.items() if tp.topic == topic}
    total = sum(end - begin for begin, end in of_topic.values())
    done = sum(
        max(0, min(committed.get(partition, 0), end) - begin)
        for partition, (begin, end) in of_topic.items()
    )
    return total, done
