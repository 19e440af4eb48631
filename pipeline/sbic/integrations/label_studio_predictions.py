"""Posteriors as predictions of Label Studio, and the users of the tasks that it sends for them."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple
from xml.etree import ElementTree

from sbic.foreign import shown
from sbic.integrations.label_studio import Choices, Problem
from sbic.wire.bad import ID_MAX_BYTES

SCORE_DIGITS = 6


class ChoicesTag(NamedTuple):
    """A `<Choices>` tag, and the choice that stands for each class, by its number."""

    name: str
    to_name: str
    choices: Mapping[int, str]

    def prediction(self, predicted: int | None, confidence: float) -> dict[str, Any]:
        """Return the prediction of a task; without a choice while no class is the most probable.

        >>> tag = ChoicesTag("pet", "image", {0: "Cat", 1: "Dog"})
        >>> tag.prediction(1, 0.75)["result"][0]["value"], tag.prediction(None, 0.5)
        ({'choices': ['Dog']}, {'result': [], 'score': 0.5})
        """
        result = []
        if predicted is not None:
            value = {"choices": [self.choices[predicted]]}
            place = {"from_name": self.name, "to_name": self.to_name}
            result.append({**place, "type": "choices", "value": value})
        return {"result": result, "score": round(confidence, SCORE_DIGITS)}


def choices_tag(config: object, reading: Choices) -> ChoicesTag:
    """Find the tag of a labeling configuration whose choices are the classes, or `Problem`.

    >>> from sbic.classes import SIGNS
    >>> config = '''<View><Text name="text" value="$text"/><Choices name="right" toName="text">
    ...     <Choice value="Yes"/><Choice value="No" alias="-1"/></Choices></View>'''
    >>> choices_tag(config, Choices(SIGNS, label_map={"Yes": 1})).choices
    {1: 'Yes', 0: '-1'}
    """
    found = [
        tag for tag in _parsed(config).iter("Choices") if reading.control in (None, tag.get("name"))
    ]
    if not found:
        named = "" if reading.control is None else f" named {shown(reading.control)}"
        raise Problem(f"the labeling configuration has no Choices{named}")
    if len(found) > 1:
        names = ", ".join(shown(tag.get("name")) for tag in found)
        raise Problem(f"the labeling configuration has several Choices ({names}): name one of them")
    name, to_name = found[0].get("name"), found[0].get("toName")
    if name is None or to_name is None:
        raise Problem("the Choices of the labeling configuration have no name or no toName")
    return ChoicesTag(name, to_name, by_class(_choices_of(found[0], reading), reading))


def _parsed(config: object) -> ElementTree.Element:
    if not isinstance(config, str) or "<!DOCTYPE" in config or "<!ENTITY" in config:
        raise Problem("the labeling configuration is not one of Label Studio")
    try:
        return ElementTree.fromstring(config)
    except ElementTree.ParseError as error:
        raise Problem(f"the labeling configuration is not XML: {error}") from None


def _choices_of(tag: ElementTree.Element, reading: Choices) -> Sequence[str]:
    """List the choices as annotations have them; the likely ones if tasks bring their own.

    An alias replaces the value in annotations.
    """
    written = [choice.get("alias") or choice.get("value") for choice in tag.iter("Choice")]
    return [text for text in written if text] or [*reading.label_map, *reading.classes.names]


def by_class(choices: Iterable[str], reading: Choices) -> dict[int, str]:
    """Return the first choice that stands for each class, by its number, or `Problem`."""
    found: dict[int, str] = {}
    for text in choices:
        try:
            number = reading.classes.number_of(reading.label_named(text))
        except Problem:
            continue  # annotators may have choices that are no class
        if number is not None:
            found.setdefault(number, text)
    for number, name in enumerate(reading.classes.names):
        if number not in found:
            raise Problem(f"no {reading.what} stands for the class {shown(name)}: map one to it")
    return found


# Who has annotated the tasks for which predictions are asked.


USER = re.compile(r"(?:.* )?(\S+@\S+), (\d+)")


def user_of(found: Mapping[str, Any]) -> tuple[str, str] | None:
    """Return who gave an annotation, and their e-mail address, which are one text.

    >>> user_of({"completed_by": 3, "created_username": "Ann Smith ann@example.org, 3"})
    ('3', 'ann@example.org')
    >>> user_of({"completed_by": 3, "created_username": " bob@example.org, 4"})
    """
    text, worker = found.get("created_username"), str(found.get("completed_by"))
    match = USER.fullmatch(text) if isinstance(text, str) else None
    if match is None or match[2] != worker or len(match[1].encode()) > ID_MAX_BYTES:
        return None
    return worker, match[1]


def users_of(tasks: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, str]]:
    """Yield those who have annotated these tasks, as workers, and their e-mail addresses."""
    for task in tasks:
        annotations = task.get("annotations")
        for found in annotations if isinstance(annotations, list) else ():
            if isinstance(found, Mapping) and (user := user_of(found)):
                yield user
