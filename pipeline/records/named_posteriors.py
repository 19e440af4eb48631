"""Posteriors of projects whose classes have names: a probability for each class."""

from math import fsum
from typing import Any, Literal, NotRequired, TypedDict, cast

from pipeline.classes import SUM_TOLERANCE
from pipeline.foreign import shown
from pipeline.records.bad import (
    BadRecord,
    Reason,
    parser,
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
    """The posterior of one task.

    `probabilities` has every class. `prediction` is the most probable one, or `null` before any
    label and while two are equally probable. `confidence` is the largest probability. `evidence`
    and `prior` are objects of probabilities too; the other fields are as in `Posterior`.
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


@parser
def parse_any_posterior(value: bytes | None) -> AnyPosterior:
    """The posterior in a record's value, with names or signs, or `BadRecord`."""
    if value is not None and b'"probabilities"' in value:
        posterior = read_object(value)
        if "probabilities" in posterior:
            return check_named(posterior)
    return parse_posterior(value)


def check_named(posterior: dict[str, Any]) -> NamedPosterior:
    """The record as a posterior with names, or `BadRecord`."""
    check_common(posterior)
    read_field(posterior, "status")
    probabilities = read_field(posterior, "probabilities")
    if not _are_probabilities(probabilities):
        problem = "'probabilities' must be an object of probabilities that add up to 1"
        raise BadRecord(Reason.BAD_FIELD, problem)
    confidence = read_number(posterior, "confidence", float)
    if confidence != max(probabilities.values()):
        problem = f"'confidence' must be the largest probability, not {shown(confidence)}"
        raise BadRecord(Reason.BAD_FIELD, problem)
    prediction = read_field(posterior, "prediction")
    if prediction is not None and not (
        type(prediction) is str and probabilities.get(prediction) == confidence
    ):
        problem = f"'prediction' must be the most probable class, or null, not {shown(prediction)}"
        raise BadRecord(Reason.BAD_FIELD, problem)
    check_optional(posterior, OPTIONAL_NAMED)
    for name in ("evidence", "prior"):
        if name in posterior and posterior[name].keys() != probabilities.keys():
            problem = f"'{name}' and 'probabilities' must have the same classes"
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
