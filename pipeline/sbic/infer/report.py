"""What a report on judges says: how far each can be trusted, who errs together, what is wrong."""

from dataclasses import dataclass
from typing import Any, NamedTuple

from sbic.infer.agreement import Bin


class OnGold(NamedTuple):
    """A judge on gold: kappa needs the base rate beside it, that of always giving one answer."""

    tasks: int
    right: int
    accuracy: float
    interval: tuple[float, float]
    base_rate: float
    kappa: float | None
    confusion: list[list[int]] | None


class ByPosterior(NamedTuple):
    """A judge by all posteriors, the truth of which is mostly estimated."""

    accuracy: float
    interval: tuple[float, float]
    confusion: list[list[float]] | None


class Judge(NamedTuple):
    """What is known of a judge.

    `behind` is how probable it is to be so far behind the best judge on gold by chance; None for
    the best, and without gold. `cost` is that of the labels, at the price in the roster.
    """

    worker: str
    name: str | None
    labels: int
    skips: int
    skip_share: float
    gold: OnGold | None
    posterior: ByPosterior | None
    behind: float | None
    contradicted: bool
    drifting: int | None
    cost: float | None


class CommonErrors(NamedTuple):
    """On `wrong` tasks one of two judges is wrong at least, on `same` both give the same answer.

    `chance` is how probable it is that so many of their errors fall on the same tasks by chance;
    only on gold.
    """

    wrong: float
    same: float
    chance: float | None

    @property
    def share(self) -> float:
        """The share of the same wrong answers."""
        return self.same / self.wrong if self.wrong else 0.0


class Pair(NamedTuple):
    """Two judges; `shared` is the vote that they share as copies of each other, mostly 0."""

    workers: tuple[str, str]
    tasks: int
    agreement: float
    kappa: float | None
    contested: int
    contested_agreement: float | None
    shared: float
    gold: CommonErrors | None
    posterior: CommonErrors | None


class Jury(NamedTuple):
    """All judges together: labels and independent votes of a task, both the median; and alpha.

    On gold, `right` of the predictions would be right if their truth were not known, and
    `majority_right` of those of the majority; a tie counts in part.
    """

    labels: float
    votes: float | None
    dependence: float | None
    alpha: float | None
    ordinal_alpha: float | None
    alpha_tasks: int
    right: int
    majority_right: float


class Calibration(NamedTuple):
    """Confidence on gold tasks, and how often it is right there."""

    ece: float
    bins: list[Bin]


class Wrong(NamedTuple):
    """Wrong predictions, of the tasks whose truth is not known.

    `expected` is the sum of doubts, `share` what gold makes of it, with its 90 % `interval`. Of the
    gold tasks labels alone predict `on_gold` wrongly, and expect `expected_on_gold`.
    """

    tasks: int
    expected: float
    share: float | None
    interval: tuple[float, float] | None
    on_gold: int
    expected_on_gold: float
    is_contradicted: bool


class Share(NamedTuple):
    """The share of a class among all tasks; its 90 % interval, once there is gold."""

    share: float
    interval: tuple[float, float] | None


class Next(NamedTuple):
    """How many more gold tasks are worth having, whether they would halve the intervals; which."""

    gold: int
    halves: bool
    tasks: list[str]


@dataclass(frozen=True)
class JuryReport:
    """What is known of a jury: those with the most labels of all `judges_known`, the best first."""

    classes: tuple[str, ...]
    gold_only: bool
    labels: int
    tasks: int
    gold: int
    judges_known: int
    judges: list[Judge]
    pairs: list[Pair]
    jury: Jury
    calibration: Calibration | None
    wrong: Wrong | None
    shares: dict[str, Share]
    next: Next


def as_object(found: Any) -> Any:
    """Return a report, or a part of it, as JSON objects and arrays.

    >>> as_object(Share(0.5, (0.25, 0.75)))
    {'share': 0.5, 'interval': [0.25, 0.75]}
    """
    if isinstance(found, JuryReport):
        return {name: as_object(value) for name, value in vars(found).items()}
    if isinstance(found, CommonErrors):
        return {**found._asdict(), "share": found.share}
    if hasattr(found, "_asdict"):
        return {name: as_object(value) for name, value in found._asdict().items()}
    if isinstance(found, dict):
        return {name: as_object(value) for name, value in found.items()}
    return [as_object(each) for each in found] if isinstance(found, list | tuple) else found
