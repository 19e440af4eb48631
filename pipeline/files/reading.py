"""How to read a file: its columns, classes and skips."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

WHOLE_NUMBER = re.compile(r"\+?(-?(?:0|[1-9][0-9]{0,17}))(?:\.0*)?")


@dataclass(frozen=True)
class Reading:
    """The user's options for reading a file.

    `columns` has the columns of fields with other names (`{"task": "HITId"}`), `classes` the
    allowed labels, in order, `skip` the labels that are skips, `positive` and `negative` the labels
    that stand for 1 and -1. `classes_from` describes where the classes come from if the user did
    not give them.

    >>> Reading(classes=("cat", "dog"), skip=("cat",))
    Traceback (most recent call last):
    ValueError: 'cat' is a class and a skip
    """

    columns: Mapping[str, str] = field(default_factory=dict)
    classes: tuple[str, ...] | None = None
    positive: str | None = None
    negative: str | None = None
    skip: tuple[str, ...] = ()
    classes_from: str = ""

    def __post_init__(self) -> None:
        if (self.positive is None) != (self.negative is None):
            raise ValueError("--positive and --negative need each other")
        if self.classes is not None and self.positive is not None:
            raise ValueError("--classes does not go with --positive and --negative")
        answers = self.answers or ()
        if "" in map(str.strip, answers):
            raise ValueError("a class without a name: an empty label is a skip")
        spelled = [as_label(answer) for answer in answers]
        for answer in spelled:
            if spelled.count(answer) > 1:
                raise ValueError(f"'{answer}' is given twice, but classes must differ")
            if answer in map(as_label, self.skip):
                raise ValueError(f"'{answer}' is a class and a skip")
        if self.classes is not None and len(self.classes) < 2:
            raise ValueError("there must be two classes or more")

    @property
    def answers(self) -> tuple[str, ...] | None:
        """The labels that are answers; None to detect them from the file."""
        if self.positive is not None and self.negative is not None:
            return (self.negative, self.positive)
        return self.classes


DEFAULT = Reading()


def as_label(text: str) -> str:
    """The normal form of a label: stripped, with whole numbers in one spelling.

    >>> [as_label(text) for text in (" cat", "+1", "1.0", "-1.", "-0", "01", "1.5")]
    ['cat', '1', '1', '-1', '0', '01', '1.5']
    """
    text = text.strip()
    match = WHOLE_NUMBER.fullmatch(text)
    if not match:
        return text
    return "0" if match[1] == "-0" else match[1]
