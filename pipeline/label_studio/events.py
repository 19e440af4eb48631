"""Parses the webhooks of Label Studio: annotations created, updated or deleted."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from pipeline.label_studio.annotation import Annotation, annotation_id, read_annotation
from pipeline.label_studio.choices import Choices, Problem

CREATED = ("ANNOTATION_CREATED", "ANNOTATIONS_CREATED")
UPDATED = ("ANNOTATION_UPDATED",)
DELETED = ("ANNOTATION_DELETED", "ANNOTATIONS_DELETED")


class Event(NamedTuple):
    """Annotations that were created or updated, and the ids of those that were deleted.

    All are empty for an action that does not concern labels.
    """

    created: tuple[Annotation, ...] = ()
    updated: tuple[Annotation, ...] = ()
    deleted: tuple[int, ...] = ()


def read_event(payload: object, choices: Choices) -> Event:
    """Parse the body of a webhook; raises `Problem`.

    >>> from pipeline.classes import Classes
    >>> read_event({"action": "ANNOTATIONS_DELETED", "annotations": [{"id": 17}]},
    ...            Choices(Classes.parse("cat,dog"))).deleted
    (17,)
    """
    if not isinstance(payload, Mapping) or not isinstance(action := payload.get("action"), str):
        raise Problem("the body must be a JSON object with an 'action', as Label Studio sends it")
    if action in DELETED:
        return Event(deleted=tuple(annotation_id(found.get("id")) for found in _found(payload)))
    if action not in CREATED + UPDATED:
        return Event()
    around = payload.get("task")
    task = around if isinstance(around, Mapping) else None  # a list for several annotations
    given = tuple(read_annotation(found, choices, task) for found in _found(payload))
    return Event(updated=given) if action in UPDATED else Event(created=given)


def _found(payload: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The annotations of a payload, as a list."""
    found = payload.get("annotation", payload.get("annotations"))
    if found is None and "id" in payload:
        found = payload  # the documented form of a single deletion
    listed = found if isinstance(found, list) else [found]
    if not all(isinstance(item, Mapping) for item in listed):
        problem = "has no annotation: switch on 'Send payload' in the webhook"
        raise Problem(f"{payload['action']} {problem}")
    return listed
