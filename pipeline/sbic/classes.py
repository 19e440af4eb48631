"""The classes of a project: -1 and 1, or names."""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Self

from sbic.engine import RETRACT as RETRACT  # in place of a class number, as SKIP is
from sbic.engine import SIGN_NAMES
from sbic.foreign import shown

MOST_CLASSES = 1000
NAME_MAX_BYTES = 64
SUM_TOLERANCE = 1e-6  # tolerated difference of a sum of probabilities from 1

SKIP = -2
"""In place of a class number: the worker skipped the task."""

LabelForm = int | str | None
"""A label on the wire: a class (-1 and 1 are numbers, names strings), 0 for a skip, or null."""

LISTED_NAMES = 10
LISTED_CHARACTERS = 160


@dataclass(frozen=True)
class Classes:
    """The classes in order; the number of a class is its position in `names`.

    On the wire -1 and 1 are numbers and names are strings.

    >>> pets = Classes.parse("cat, dog, bird")
    >>> pets.names, len(pets), pets.is_signs
    (('cat', 'dog', 'bird'), 3, False)
    >>> pets.number_of("dog"), pets.label_of(1), pets.number_of("fish")
    (1, 'dog', None)
    >>> SIGNS.names, SIGNS.number_of(-1), SIGNS.label_of(1), SIGNS.number_of("1")
    (('-1', '1'), 0, 1, None)
    """

    names: tuple[str, ...]

    def __post_init__(self) -> None:
        if self.is_signs:
            return
        if len(self.names) < 2:
            raise ValueError(f"there must be at least two classes, not {len(self.names)}")
        if len(self.names) > MOST_CLASSES:
            raise ValueError(f"there are {len(self.names)} classes, more than {MOST_CLASSES}")
        for name in self.names:
            _check_name(name)
        if len(set(self.names)) < len(self.names):
            twice = next(name for name in self.names if self.names.count(name) > 1)
            raise ValueError(f"the class {shown(twice)} is given twice")

    @classmethod
    def parse(cls, text: str) -> Self:
        """Classes from a setting, separated by commas; the order of -1 and 1 is fixed.

        >>> Classes.parse("1,-1") == SIGNS
        True
        >>> Classes.parse("cat,dog,cat")
        Traceback (most recent call last):
        ValueError: the class 'cat' is given twice
        """
        return cls.of(name.strip() for name in text.split(","))

    @classmethod
    def of(cls, given: Iterable[str]) -> Self:
        """Classes with these names, none of which may have a comma; likewise.

        >>> Classes.of(["cat,dog", "bird"])
        Traceback (most recent call last):
        ValueError: the class 'cat,dog' must not contain a comma, or blanks around it
        """
        names = tuple(given)
        return cls(SIGN_NAMES if sorted(names) == sorted(SIGN_NAMES) else names)

    def __len__(self) -> int:
        return len(self.names)

    @cached_property
    def is_signs(self) -> bool:
        """Whether the classes are -1 and 1."""
        return self.names == SIGN_NAMES

    @cached_property
    def labels(self) -> tuple[int | str, ...]:
        """The classes in order, in their wire form."""
        return (-1, 1) if self.is_signs else self.names

    @cached_property
    def numbers(self) -> dict[LabelForm, int]:
        """What a label in its wire form means: the number of a class, `SKIP` or `RETRACT`.

        Look up only numbers and strings: 1.0 and `True` are 1 to a dictionary.
        """
        numbers: dict[LabelForm, int] = {0: SKIP, None: RETRACT}
        numbers.update(zip(self.labels, range(len(self)), strict=True))
        return numbers

    @cached_property
    def _forms(self) -> dict[int, LabelForm]:
        return {number: label for label, number in self.numbers.items()}

    def label_of(self, answer: int) -> LabelForm:
        """Return the wire form of a class, a skip or a retraction.

        >>> [SIGNS.label_of(answer) for answer in (0, 1, SKIP, RETRACT)]
        [-1, 1, 0, None]
        """
        return self._forms[answer]

    def number_of(self, label: object) -> int | None:
        """Return the number of a class in its wire form, or None if it is not a class.

        >>> [SIGNS.number_of(label) for label in (1, True, 1.0, "1", 0, None)]
        [1, None, None, None, None, None]
        """
        number = self.numbers.get(label) if type(label) in (int, str) else None  # type: ignore[call-overload]
        return None if number == SKIP else number

    def label_named(self, name: str) -> LabelForm:
        """Return the label that people call so: the wire form of a class, or 0 for a skip.

        >>> [SIGNS.label_named(name) for name in ("-1", "0", "2")]
        [-1, 0, None]
        """
        if name in self.names:
            return self.labels[self.names.index(name)]
        return 0 if name == "0" else None

    def listed(self) -> str:
        """Return the classes for a message: all if they are few, otherwise the first ones.

        >>> Classes(tuple("abcdefghijklm")).listed()
        "'a', 'b', 'c', 'd', 'e', 'f', 'g', 'h', 'i', 'j', ..."
        """
        shown = [repr(self.labels[0])]
        for label in self.labels[1:LISTED_NAMES]:
            if len(", ".join(shown)) + len(repr(label)) > LISTED_CHARACTERS:
                break
            shown.append(repr(label))
        return ", ".join(shown if len(shown) == len(self) else [*shown, "..."])


def _check_name(name: str) -> None:
    if not name.strip():
        raise ValueError("a class has no name")
    if name != name.strip() or "," in name:
        raise ValueError(f"the class {shown(name)} must not contain a comma, or blanks around it")
    try:
        size = len(name.encode())
    except UnicodeEncodeError:
        raise ValueError(f"the class {shown(name)} is not text in UTF-8") from None
    if size > NAME_MAX_BYTES:
        raise ValueError(
            f"the class {shown(name)} has {size} bytes in UTF-8, more than {NAME_MAX_BYTES}"
        )


SIGNS = Classes(SIGN_NAMES)
