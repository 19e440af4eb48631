"""The two forms of classes in JSON: -1 and 1 with log-odds, or names with a share for each.

Everywhere else a class is a number, its position in `Classes.names`, and shares are a list in that
order.
"""

from abc import ABC, abstractmethod
from functools import lru_cache
from math import exp, fsum
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from orjson import dumps

from sbic.classes import SUM_TOLERANCE, Classes, LabelForm
from sbic.engine.labels import Floats, Ints
from sbic.foreign import shown
from sbic.wire.bad import BadRecord, Reason, read_field, read_number

CERTAIN = 1000.0  # log-odds whose probability is exactly 1 in a double

Probabilities = list[float]
"""A number for each class, in their order; they add up to 1."""


class Belief(NamedTuple):
    """What a posterior says of the classes: `prediction` is None where none is predicted.

    `log_odds` are those of 1, with the classes -1 and 1.
    """

    shares: Probabilities
    prediction: int | None
    log_odds: float | None = None


class Rendering(ABC):
    """How classes are written in JSON, and read.

    `needs_label` and `needs_class` are what a label and a class have to be, for messages. `fields`
    are those of a posterior's belief, and `by_class` the fields of a posterior that have a number
    for each class.
    """

    needs_label: str
    needs_class: str
    fields: tuple[str, ...]
    by_class: tuple[str, ...]

    def __init__(self, classes: Classes) -> None:
        self.classes = classes

    @abstractmethod
    def prediction(self, prediction: int | None) -> LabelForm:
        """Return the prediction of a posterior; None where no class is predicted."""

    @abstractmethod
    def beliefs(self, beliefs: Floats, scores: Floats, labels: Ints, golds: Ints) -> list[bytes]:
        """Return the fields of beliefs, a row for each task; the scores are those without gold."""

    @abstractmethod
    def read_belief(self, record: dict[str, Any]) -> Belief:
        """Return the belief in a posterior, or `BadRecord`."""

    @abstractmethod
    def evidence(self, scores: Floats) -> object:
        """Return what is believed of a gold task without gold."""

    @abstractmethod
    def read_evidence(self, value: Any) -> Probabilities | None:
        """Return the same as shares; None if it is no such value."""

    @abstractmethod
    def shares(self, shares: Probabilities) -> object:
        """Return a number for each class, such as the prior of a task."""

    @abstractmethod
    def read_shares(self, value: Any) -> Probabilities | None:
        """Return the shares in a field; None if it has no such value."""

    @abstractmethod
    def read_prior(self, value: Any) -> Probabilities:
        """Return the prior that a user has given to a task, or `BadRecord`; no share of it is 0."""


class _Signs(Rendering):
    """-1 and 1; of two shares, that of 1 says both."""

    needs_label = "1, -1, 0 or null"
    needs_class = "1 or -1"
    fields = ("log_odds", "probability", "prediction")
    by_class = ()

    def prediction(self, prediction: int | None) -> LabelForm:
        return 0 if prediction is None else self.classes.label_of(prediction)

    def beliefs(self, beliefs: Floats, scores: Floats, labels: Ints, golds: Ints) -> list[bytes]:
        odds = scores[:, 1] - scores[:, 0]
        odds = np.where(golds >= 0, np.where(golds == 1, CERTAIN, -CERTAIN), odds)
        predictions = [b"-1", b"0", b"1"]
        return [
            b'"log_odds":%b,"probability":%b,"prediction":%b' % (z, p, predictions[sign])
            for z, p, sign in zip(
                texts_of(odds),
                texts_of(beliefs[:, 1]),
                (np.sign(odds).astype(int) + 1).tolist(),
                strict=True,
            )
        ]

    def read_belief(self, record: dict[str, Any]) -> Belief:
        log_odds = read_number(record, "log_odds", float)
        shares = self.read_shares(read_number(record, "probability", float))
        if shares is None:
            raise BadRecord(Reason.BAD_FIELD, "'probability' must be from 0 to 1")
        predicted = read_number(record, "prediction", int)
        if predicted not in (1, -1, 0):
            raise BadRecord(Reason.BAD_FIELD, "'prediction' must be 1, -1 or 0")
        return Belief(shares, self.classes.number_of(predicted), log_odds)

    def evidence(self, scores: Floats) -> object:
        return float(scores[1] - scores[0])

    def read_evidence(self, value: Any) -> Probabilities | None:
        if type(value) is not float:
            return None
        least = 1 / (1 + exp(min(abs(value), 700.0)))
        return [least, 1 - least] if value > 0 else [1 - least, least]

    def shares(self, shares: Probabilities) -> object:
        return shares[1]

    def read_shares(self, value: Any) -> Probabilities | None:
        return [1 - value, value] if type(value) is float and 0 <= value <= 1 else None

    def read_prior(self, value: Any) -> Probabilities:
        if not _is_inside(value):
            problem = f"'prior' must be a number between 0 and 1, or null, not {shown(value)}"
            raise BadRecord(Reason.BAD_PRIOR, problem)
        return [1 - value, value]


class _ClassNames(Rendering):
    """Names; shares are an object by name, with every class."""

    fields = ("prediction", "confidence", "probabilities")
    by_class = ("probabilities", "evidence", "prior")

    def __init__(self, classes: Classes) -> None:
        super().__init__(classes)
        self.needs_class = f"one of {classes.listed()}"
        self.needs_label = f"{self.needs_class}, 0 or null"
        self.names = classes.names
        self.texts = [dumps(name) for name in classes.names]

    def prediction(self, prediction: int | None) -> LabelForm:
        return None if prediction is None else self.names[prediction]

    def beliefs(self, beliefs: Floats, scores: Floats, labels: Ints, golds: Ints) -> list[bytes]:
        first = beliefs.argmax(axis=1)
        confidence = beliefs[np.arange(len(first)), first]
        is_tie = (beliefs == confidence[:, None]).sum(axis=1) > 1
        is_known = ((labels > 0) & ~is_tie) | (golds >= 0)
        keys = [b"%b:" % text for text in self.texts]
        shares, size = texts_of(beliefs.ravel()), len(keys)
        rows = zip(first.tolist(), texts_of(confidence), is_known.tolist(), strict=True)
        return [
            b'"prediction":%b,"confidence":%b,"probabilities":{%b}'
            % (
                self.texts[k] if known else b"null",
                sure,
                b",".join(map(bytes.__add__, keys, shares[row * size : (row + 1) * size])),
            )
            for row, (k, sure, known) in enumerate(rows)
        ]

    def read_belief(self, record: dict[str, Any]) -> Belief:
        shares = self.read_shares(read_field(record, "probabilities"))
        if shares is None:
            problem = "'probabilities' must have every class, and add up to 1"
            raise BadRecord(Reason.BAD_FIELD, problem)
        confidence = read_number(record, "confidence", float)
        if confidence != max(shares):
            problem = f"'confidence' must be the largest probability, not {shown(confidence)}"
            raise BadRecord(Reason.BAD_FIELD, problem)
        predicted = read_field(record, "prediction")
        number = self.classes.number_of(predicted)
        if predicted is not None and (number is None or shares[number] != confidence):
            what = "the most probable class, or null"
            problem = f"'prediction' must be {what}, not {shown(predicted)}"
            raise BadRecord(Reason.BAD_FIELD, problem)
        return Belief(shares, number)

    def evidence(self, scores: Floats) -> object:
        odds = np.exp(scores - scores.max())
        return self.shares((odds / odds.sum()).tolist())

    def read_evidence(self, value: Any) -> Probabilities | None:
        return self.read_shares(value)

    def shares(self, shares: Probabilities) -> object:
        return dict(zip(self.names, shares, strict=True))

    def read_shares(self, value: Any) -> Probabilities | None:
        if type(value) is not dict or len(value) != len(self.names):
            return None
        try:
            shares = [value[name] for name in self.names]
        except KeyError:
            return None
        is_good = (
            set(map(type, shares)) == {float}
            and 0 <= min(shares) <= max(shares) <= 1
            and abs(fsum(shares) - 1) <= SUM_TOLERANCE
        )
        return shares if is_good else None

    def read_prior(self, value: Any) -> Probabilities:
        if type(value) is not dict:
            needs = "an object with a probability of each class, or null"
            raise BadRecord(Reason.BAD_PRIOR, f"'prior' must be {needs}, not {shown(value)}")
        for name in value:
            if self.classes.number_of(name) is None:
                problem = f"'prior' has {shown(name)}, and the classes are {self.classes.listed()}"
                raise BadRecord(Reason.BAD_PRIOR, problem)
        for name in self.names:
            if name not in value:
                raise BadRecord(Reason.BAD_PRIOR, f"'prior' has no probability of {shown(name)}")
            if not _is_inside(value[name]):
                needs = "a number between 0 and 1"
                problem = f"the 'prior' of {shown(name)} must be {needs}, not {shown(value[name])}"
                raise BadRecord(Reason.BAD_PRIOR, problem)
        total = fsum(value.values())
        if abs(total - 1) > SUM_TOLERANCE:
            raise BadRecord(Reason.BAD_PRIOR, f"'prior' must add up to 1, not to {total:.9g}")
        return [value[name] / total for name in self.names]


@lru_cache(maxsize=16)
def rendering_of(classes: Classes) -> Rendering:
    """Return the form of a project with these classes.

    >>> rendering_of(Classes.parse("-1,1")).shares([0.75, 0.25])
    0.25
    >>> pets = rendering_of(Classes.parse("cat,dog"))
    >>> pets.shares([0.75, 0.25]), pets.read_shares({"dog": 0.25, "cat": 0.75})
    ({'cat': 0.75, 'dog': 0.25}, [0.75, 0.25])
    """
    return _Signs(classes) if classes.is_signs else _ClassNames(classes)


def texts_of(column: NDArray[Any]) -> list[bytes]:
    """Each number as JSON."""
    return dumps(column.tolist())[1:-1].split(b",") if len(column) else []


def _is_inside(value: object) -> bool:
    return type(value) is float and 0 < value < 1
