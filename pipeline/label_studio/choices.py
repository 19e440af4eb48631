"""Maps the choices of an annotation to a class."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pipeline.classes import Classes
from pipeline.foreign import shown

SIGNS = {"1": 1, "+1": 1, "-1": -1, "0": 0}


class Problem(ValueError):
    """An annotation that cannot become a label; the message says why, in one line."""


@dataclass(frozen=True)
class Choices:
    """Reads the choice of one control; without a name, of the only one of type `choices`.

    `label_map` has the label that a choice stands for, where it is not the name of a class.

    >>> yes = [{"from_name": "right", "type": "choices", "value": {"choices": ["Yes"]}}]
    >>> Choices(Classes.parse("-1,1"), label_map={"Yes": 1, "No": -1}).label_of(yes)
    1
    >>> Choices(Classes.parse("Yes,No"), control="right").label_of(yes)
    'Yes'
    >>> Choices(Classes.parse("Yes,No"), control="right").label_of([])
    0
    """

    classes: Classes
    control: str | None = None
    label_map: Mapping[str, int | str] = field(default_factory=dict)

    def label_of(self, result: object) -> int | str:
        """The label in the results of an annotation; one without the control is a skip."""
        if not isinstance(result, list):
            raise Problem(f"'result' must be a list, not {shown(result)}")
        found = [
            item
            for item in result
            if isinstance(item, Mapping)
            and item.get("type") == "choices"
            and self.control in (None, item.get("from_name"))
        ]
        names = sorted({shown(item.get("from_name")) for item in found})
        if len(names) > 1:
            raise Problem(f"several controls have choices ({', '.join(names)}): name one of them")
        if not found:
            return 0
        if len(found) > 1:
            raise Problem(f"the control {names[0]} has {len(found)} results, one for each region")
        value = found[0].get("value")
        return self._label(value.get("choices") if isinstance(value, Mapping) else None)

    def label_in_row(self, row: Mapping[str, Any]) -> int | str:
        """The label in a row of the JSON_MIN export, which has a field for each control."""
        if self.control is None:
            raise Problem("in a JSON_MIN export the control must be named")
        value = row.get(self.control)
        if value is None:
            return 0
        chosen = value.get("choices") if isinstance(value, Mapping) else [value]
        return self._label(chosen)

    def _label(self, chosen: object) -> int | str:
        if not isinstance(chosen, list) or not all(isinstance(name, str) for name in chosen):
            raise Problem(f"'choices' must be a list of strings, not {shown(chosen)}")
        if not chosen:
            return 0
        if len(chosen) > 1:
            raise Problem(f"{len(chosen)} choices at once: {shown(chosen)}; a label is one class")
        name = str(chosen[0])
        if name in self.label_map:
            return self.label_map[name]
        if self.classes.is_signs and name in SIGNS:
            return SIGNS[name]
        if not self.classes.is_signs and name in self.classes.names:
            return name
        listed = self.classes.listed()
        raise Problem(f"the choice {shown(name)} is not one of the classes {listed}: map it to one")


def label_map_of(text: str, classes: Classes) -> dict[str, int | str]:
    """Parse the map of choices to labels in the hook's address; raises `Problem`.

    >>> label_map_of("Yes:1,No:-1,Not sure:0", Classes.parse("-1,1"))
    {'Yes': 1, 'No': -1, 'Not sure': 0}
    """
    labels: dict[str, int | str] = {}
    for pair in text.split(","):
        choice, colon, name = (part.strip() for part in pair.rpartition(":"))
        if not colon or not choice:
            raise Problem(f"{shown(pair)} is not CHOICE:LABEL, such as Yes:1")
        labels[choice] = label_named(name, classes)
    return labels


def label_named(name: str, classes: Classes) -> int | str:
    """The label of this name: a class, or 0 for a skip; raises `Problem`.

    >>> label_named("-1", Classes.parse("-1,1")), label_named("cat", Classes.parse("cat,dog"))
    (-1, 'cat')
    """
    if name in classes.names:
        return classes.labels[classes.names.index(name)]
    if name == "0":
        return 0
    raise Problem(f"{shown(name)} is not one of {classes.listed()}, or 0 to skip")
