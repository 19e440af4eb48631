"""The outputs: a posterior for each task, with signs or names, and a record for each worker."""

from collections.abc import Callable
from math import fsum
from typing import Any, Literal, NotRequired, TypedDict, cast

from orjson import JSONDecodeError, dumps, loads

from sbic.classes import SUM_TOLERANCE
from sbic.foreign import shown
from sbic.wire.bad import (
    ID_SURELY_SHORT,
    BadRecord,
    Reason,
    parser,
    read_field,
    read_id,
    read_number,
    read_object,
)

# Posteriors, the output: the probability of each task's classes, and the labels counted in it.
#
# First those of projects with the classes -1 and 1, then those of other classes.


CERTAIN = 1000.0  # log-odds whose probability is exactly 1 in a double

TASKS = "tasks"  # key of the tasks topic in `sources`

CloseReason = Literal["confident", "labels", "budget", "request", "exhausted"]
CLOSE_REASONS: tuple[CloseReason, ...] = (
    "confident",
    "labels",
    "budget",
    "request",
    "exhausted",
)


class Posterior(TypedDict):
    """The posterior of one task.

    `probability` is that of +1; `prediction` is 1, -1, or 0 while `log_odds` is exactly 0.
    `sources` maps a partition of the labels topic to the offset of the last label counted from it,
    and `"tasks"` to the offset of the last record applied from the tasks topic. `updated_at` is the
    timestamp of the newest of all these records, in milliseconds.

    Optional fields are present only when they apply: the `reason` of a closed task; of a gold one
    `gold` and `evidence`, the log-odds that it would have otherwise; a `prior` of its own;
    `reopened` where stop rules no longer apply; under settled `effective_votes`, how many
    independent votes the labels are worth, given how often workers err together.
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
    effective_votes: NotRequired[float]


def _parse_signs(value: bytes | None) -> Posterior:
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
            and (
                len(posterior) == USUAL_FIELDS
                or (
                    len(posterior) == USUAL_FIELDS + 1
                    and type(posterior.get("effective_votes")) is float
                )
            )
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
    "effective_votes": lambda value: type(value) is float and value >= 0,
}


# Posteriors of projects whose classes have names: a probability for each class.


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
    effective_votes: NotRequired[float]


AnyPosterior = Posterior | NamedPosterior


@parser
def parse_posterior(value: bytes | None) -> AnyPosterior:
    """The posterior in a record's value, with signs or names, or `BadRecord`.

    >>> parse_posterior(b'{"task": "t1", "log_odds": -2.5, "probability": 0.08, "prediction": -1, '
    ...     b'"labels": 1, "status": "open", "sources": {"3": 42}, "updated_at": 0}')["prediction"]
    -1
    """
    if value is not None and b'"probabilities"' in value:
        posterior = read_object(value)
        if "probabilities" in posterior:
            return check_named(posterior)
    return _parse_signs(value)


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


# Workers, the other output: the estimate of each worker.


class AgreesWith(TypedDict):
    """Another worker with whom one has `tasks` in common whose labels differ.

    They agree on a share `agreement` of them; of those on which one of them is wrong, as far as is
    known, both give the same wrong answer on a share `errors_alike`. `shared` is the vote that they
    share: 1 if each has only half of it, 0 if they count as independent.
    """

    worker: str
    tasks: int
    agreement: float
    errors_alike: float
    shared: float


class Worker(TypedDict):
    """The estimate of one worker.

    `accuracy` is the probability that their next answer is right, and `interval` its central 95 %
    (of the Beta posterior). `labels` is the number of their labels that count, `correct` the
    expected number of right ones, `gold` the number on gold tasks, and `gold_right` the number of
    right ones among these. `last_seen` is the timestamp of their newest label or skip, in
    milliseconds.

    Present under settled only: a worker knows the answer with probability `theta` (negative if they
    are right less often than by chance), and otherwise answers each class with the frequency in
    `habits`, by the name of the class ("-1" and "1" for the default classes). With more labels
    `confusion` grows out of both: by true class, the probability of each answer.

    `gold_interval` is the 95 % interval of the accuracy on gold alone (Wilson), once there is any.
    `contradicted` is present if the accuracy on gold lies outside `interval` by more than chance:
    by more than three standard errors.

    `agrees_with` has the workers who share a vote, and whose errors go together most. `drifting` is
    since when the worker answers otherwise than before: a timestamp in milliseconds. `blocked` and
    `name` are what the roster says of the worker.
    """

    worker: str
    accuracy: float
    interval: list[float]
    labels: int
    correct: float
    gold: int
    gold_right: int
    last_seen: int
    theta: NotRequired[float]
    habits: NotRequired[dict[str, float]]
    confusion: NotRequired[dict[str, dict[str, float]]]
    gold_interval: NotRequired[list[float]]
    contradicted: NotRequired[Literal[True]]
    agrees_with: NotRequired[list[AgreesWith]]
    drifting: NotRequired[int]
    blocked: NotRequired[bool]
    name: NotRequired[str]


def encode_worker(worker: Worker) -> bytes:
    """The value of a worker's record.

    >>> counts = {"labels": 1, "correct": 1.0, "gold": 1, "gold_right": 1, "last_seen": 0}
    >>> encode_worker({"worker": "w1", "accuracy": 0.75, "interval": [0.29, 0.99], **counts})[:39]
    b'{"worker":"w1","accuracy":0.75,"interva'
    """
    return dumps(worker)
