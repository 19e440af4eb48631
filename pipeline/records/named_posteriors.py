"""Posteriors of projects whose classes have names: a probability for each class."""

from collections.abc import Sequence
from math import fsum
from typing import Any, Literal, NotRequired, TypedDict, cast

from pipeline.classes import SUM_TOLERANCE, Classes
from pipeline.records.bad import (
    BadRecord,
    Reason,
    read_field,
    read_number,
    read_object,
)
from pipeline.records.posteriors import (
    OPTIONAL,
    CloseReason,
    Posterior,
    check_common,
    check_optional,
    parse_posterior,
)


class NamedPosterior(TypedDict):
    """What is known of one task.

    `probabilities` has every class. `prediction` is the most probable one; `null` before any
    label, and while two are equally probable. `confidence` is the largest probability. `evidence`
    and `prior` are objects of probabilities too; all else is as in `Posterior`.
    """

    task: str
    prediction: str | None
    confidence: float
    probabilities: dict[str, float]
    labels: int
    status: Literal["open", "closed"]
    sources: dict[str, int]
    updated_at: int
    reason: NotRequired[CloseReason]
    gold: NotRequired[Literal[True]]
    evidence: NotRequired[dict[str, float]]
    prior: NotRequired[dict[str, float]]
    reopened: NotRequired[Literal[True]]


AnyPosterior = Posterior | NamedPosterior


def named_posterior_of(
    classes: Classes,
    task: str,
    probabilities: Sequence[float],
    labels: int,
    sources: dict[str, int],
    updated_at: int,
    gold: int | None = None,
) -> NamedPosterior:
    """The record of a task with these probabilities, in the order of the classes.

    Of gold, the number of whose class is given, they are what it would have otherwise.

    >>> pets = Classes.parse("cat,dog")
    >>> record = named_posterior_of(pets, "t1", [0.2, 0.8], 1, {"3": 42}, 1700000000000)
    >>> record["prediction"], record["confidence"], record["probabilities"]
    ('dog', 0.8, {'cat': 0.2, 'dog': 0.8})
    >>> record = named_posterior_of(pets, "t1", [0.2, 0.8], 0, {"tasks": 7}, 0, gold=0)
    >>> record["prediction"], record["probabilities"], record["evidence"]
    ('cat', {'cat': 1.0, 'dog': 0.0}, {'cat': 0.2, 'dog': 0.8})
    """
    evidence = by_name(classes, probabilities)
    known = evidence
    prediction: str | None
    if gold is None:
        confidence = max(probabilities)
        prediction = None
        if labels and probabilities.count(confidence) == 1:
            prediction = classes.names[probabilities.index(confidence)]
    else:
        confidence, prediction = 1.0, classes.names[gold]
        known = {**dict.fromkeys(classes.names, 0.0), prediction: 1.0}
    record: NamedPosterior = {
        "task": task,
        "prediction": prediction,
        "confidence": confidence,
        "probabilities": known,
        "labels": labels,
        "status": "open",
        "sources": sources,
        "updated_at": updated_at,
    }
    if gold is not None:
        record["gold"] = True
        record["evidence"] = evidence
    return record


def by_name(classes: Classes, numbers: Sequence[float]) -> dict[str, float]:
    """Numbers in the order of the classes as they are on the wire.

    >>> by_name(Classes.parse("cat,dog"), [0.2, 0.8])
    {'cat': 0.2, 'dog': 0.8}
    """
    return dict(zip(classes.names, numbers, strict=True))


def parse_any_posterior(value: bytes | None) -> AnyPosterior:
    """The posterior in a record's value, of either kind, or `BadRecord`.

    >>> from pipeline.records.posteriors import encode_posterior, posterior_of
    >>> parse_any_posterior(encode_posterior(posterior_of("t1", -2.5, 1, {}, 0)))["prediction"]
    -1
    >>> named = named_posterior_of(Classes.parse("cat,dog"), "t1", [0.2, 0.8], 1, {}, 0)
    >>> parse_any_posterior(encode_posterior(named))["prediction"]
    'dog'
    """
    if value is not None and b'"probabilities"' in value:
        posterior = read_object(value)
        if "probabilities" in posterior:
            return check_named(posterior)
    return parse_posterior(value)


def check_named(posterior: dict[str, Any]) -> NamedPosterior:
    """The record as a posterior by name, or `BadRecord`."""
    check_common(posterior)
    read_field(posterior, "status")
    probabilities = read_field(posterior, "probabilities")
    if not _are_probabilities(probabilities):
        problem = "'probabilities' must be an object of probabilities that add up to 1"
        raise BadRecord(Reason.BAD_FIELD, problem)
    confidence = read_number(posterior, "confidence", float)
    if confidence != max(probabilities.values()):
        problem = f"'confidence' must be the largest probability, not {confidence!r}"
        raise BadRecord(Reason.BAD_FIELD, problem)
    prediction = read_field(posterior, "prediction")
    if prediction is not None and not (
        type(prediction) is str and probabilities.get(prediction) == confidence
    ):
        problem = f"'prediction' must be the most probable class, or null, not {prediction!r:.40}"
        raise BadRecord(Reason.BAD_FIELD, problem)
    check_optional(posterior, OPTIONAL_NAMED)
    for name in ("evidence", "prior"):
        if name in posterior and posterior[name].keys() != probabilities.keys():
            problem = f"{name!r} and 'probabilities' must have the same classes"
            raise BadRecord(Reason.BAD_FIELD, problem)
    if "gold" in posterior:
        read_field(posterior, "evidence")
        if prediction is None:
            raise BadRecord(Reason.BAD_FIELD, "the prediction of gold must be one of the classes")
    return cast(NamedPosterior, posterior)


def _are_probabilities(value: Any) -> bool:
    return (
        type(value) is dict
        and len(value) >= 2
        and set(map(type, value.values())) == {float}
        and all(0 <= probability <= 1 for probability in value.values())
        and abs(fsum(value.values()) - 1) <= SUM_TOLERANCE
    )


def _is_prior(value: Any) -> bool:
    return _are_probabilities(value) and all(value.values())


OPTIONAL_NAMED = {**OPTIONAL, "evidence": _are_probabilities, "prior": _is_prior}
