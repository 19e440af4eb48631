"""Posteriors, the output: the probability of each task's classes, and the labels counted in it.

This module is for projects with the classes -1 and 1; `named_posteriors` is for other classes.
"""

from collections.abc import Callable
from typing import Any, Literal, NotRequired, TypedDict, cast

from orjson import JSONDecodeError, loads

from pipeline.foreign import shown
from pipeline.records.bad import (
    ID_SURELY_SHORT,
    BadRecord,
    Reason,
    parser,
    read_field,
    read_id,
    read_number,
    read_object,
)

CERTAIN = 1000.0  # log-odds whose probability is exactly 1 in a double

TASKS = "tasks"  # key of the tasks topic in `sources`

CloseReason = Literal["confident", "labels", "budget", "request"]
CLOSE_REASONS: tuple[CloseReason, ...] = ("confident", "labels", "budget", "request")


class Posterior(TypedDict):
    """The posterior of one task.

    `probability` is that of +1; `prediction` is 1, -1, or 0 while `log_odds` is exactly 0.
    `sources` maps a partition of the labels topic to the offset of the last label counted from it,
    and `"tasks"` to the offset of the last record applied from the tasks topic. `updated_at` is the
    timestamp of the newest of all these records, in milliseconds.

    Optional fields are present only when they apply: the `reason` of a closed task; of a gold one
    `gold` and `evidence`, the log-odds that it would have otherwise; a `prior` of its own;
    `reopened` where stop rules no longer apply.
    """

    task: str
    log_odds: float
    probability: float
    prediction: Literal[1, -1, 0]
    labels: int
    status: Literal["open", "closed"]
    sources: dict[str, int]
    updated_at: int
    reason: NotRequired[CloseReason]
    gold: NotRequired[Literal[True]]
    evidence: NotRequired[float]
    prior: NotRequired[float]
    reopened: NotRequired[Literal[True]]


@parser
def parse_posterior(value: bytes | None) -> Posterior:
    """The posterior in a record's value, or `BadRecord`.

    >>> parse_posterior(b'{"task": "t1", "log_odds": -2.5, "probability": 0.08, "prediction": -1, '
    ...     b'"labels": 1, "status": "open", "sources": {"3": 42}, "updated_at": 0}')["log_odds"]
    -2.5
    """
    try:
        posterior = loads(value)  # type: ignore[arg-type]  # None is not JSON either
        task = posterior["task"]
        if (
            type(task) is str
            and 0 < len(task) <= ID_SURELY_SHORT
            and type(posterior["log_odds"]) is float
            and type(posterior["probability"]) is float
            and 0 <= posterior["probability"] <= 1
            and type(posterior["prediction"]) is int
            and posterior["prediction"] in PREDICTIONS
            and type(posterior["labels"]) is int
            and 0 <= posterior["labels"] <= MOST_LABELS
            and type(posterior["sources"]) is dict
            and set(map(type, posterior["sources"].values())) <= OFFSETS
            and type(posterior["updated_at"]) is int
            and posterior["updated_at"] < LATEST
            and len(posterior) == USUAL_FIELDS
            and posterior["status"] == "open"
        ):
            return cast(Posterior, posterior)
    except (JSONDecodeError, TypeError, KeyError):
        pass
    return check_posterior(read_object(value))


def check_posterior(posterior: dict[str, Any]) -> Posterior:
    """The record as a posterior, or `BadRecord`."""
    check_common(posterior)
    read_number(posterior, "log_odds", float)
    if not 0 <= read_number(posterior, "probability", float) <= 1:
        raise BadRecord(Reason.BAD_FIELD, "'probability' must be from 0 to 1")
    if read_number(posterior, "prediction", int) not in PREDICTIONS:
        raise BadRecord(Reason.BAD_FIELD, "'prediction' must be 1, -1 or 0")
    check_optional(posterior, OPTIONAL)
    if "gold" in posterior:
        read_number(posterior, "evidence", float)
        if posterior.get("prediction") not in (1, -1):
            raise BadRecord(Reason.BAD_FIELD, "the prediction of gold must be 1 or -1")
    return cast(Posterior, posterior)


def check_common(posterior: dict[str, Any]) -> None:
    """Check the fields that posteriors with signs and with names share."""
    read_id(posterior, "task")
    if not 0 <= read_number(posterior, "labels", int) <= MOST_LABELS:
        raise BadRecord(Reason.BAD_FIELD, "'labels' must be a number of labels")
    if read_number(posterior, "updated_at", int) >= LATEST:
        raise BadRecord(Reason.BAD_FIELD, "'updated_at' must be a time in milliseconds")
    sources = read_field(posterior, "sources")
    if type(sources) is not dict or not set(map(type, sources.values())) <= OFFSETS:
        raise BadRecord(Reason.BAD_FIELD, "'sources' must be an object of offsets")


def check_optional(posterior: dict[str, Any], fields: dict[str, Callable[[Any], bool]]) -> None:
    """Check the optional fields that are present."""
    for name, is_good in fields.items():
        if name in posterior and not is_good(posterior[name]):
            raise BadRecord(Reason.BAD_FIELD, f"'{name}' cannot be {shown(posterior[name])}")


USUAL_FIELDS = 8
MOST_LABELS = 1 << 53  # exact in every JSON parser
LATEST = 1 << 62  # limit of times
PREDICTIONS = (1, -1, 0)
OFFSETS = {int}
OPTIONAL: dict[str, Callable[[Any], bool]] = {
    "status": lambda value: value in ("open", "closed"),
    "reason": lambda value: value in CLOSE_REASONS,
    "gold": lambda value: value is True,
    "evidence": lambda value: type(value) is float,
    "prior": lambda value: type(value) is float and 0 < value < 1,
    "reopened": lambda value: value is True,
}
