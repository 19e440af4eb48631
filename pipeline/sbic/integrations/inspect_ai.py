"""A panel of graders in inspect_ai whose members are weighed: a reducer, and what a log says.

Needs the extra: pip install 'sbic[inspect]'.
"""

from collections.abc import Sequence
from math import isnan
from typing import Any

from sbic.foreign import shown
from sbic.infer.settled import Settled

try:
    from inspect_ai.log import EvalLog
    from inspect_ai.scorer import Score, ScoreReducer, Value, score_reducer
except ImportError:
    raise ImportError("inspect_ai needs an extra: run pip install 'sbic[inspect]'") from None

GRADES = ("C", "I")
PANEL = "panel"  # in the metadata of a score, as inspect_ai's own majority has it

GradedRow = tuple[str, str, Any]


class PanelReducer:
    """Weighs the grades of a panel by what all grades so far say of its members.

    Under `settled`, so members who agree with the others have more of a say, and members who err
    together share one.
    """

    __name__ = "jury"

    def __init__(self, members: Sequence[str] | None, grades: Sequence[Any]) -> None:
        self._members = members
        self._grades = list(grades)
        self._rows: list[GradedRow] = []
        self._crowd = Settled[str, str, Any](tuple(self._grades))
        self._samples = 0

    def __call__(self, scores: list[Score]) -> Score:
        """Return the most probable grade; no score if no member has one, or in a tie."""
        votes = [vote_of(score) for score in scores]
        sample, self._samples = str(self._samples), self._samples + 1
        rows = [
            (sample, member, vote)
            for member, vote in zip(self._names(len(votes), sample), votes, strict=True)
            if vote is not None
        ]
        self._learn(rows)
        failures = [number for number, vote in enumerate(votes) if vote is None]
        panel: dict[str, Any] = {"votes": votes, "size": len(votes), "failures": failures}
        if not rows:
            return reduced(Score.unscored(reason="scoring_failed"), scores, panel)
        shares = self._crowd.probabilities(sample)
        panel["probabilities"] = {str(grade): share for grade, share in shares.items()}
        best = max(shares.values())
        winners = [grade for grade, share in shares.items() if share > best - TIE]
        panel["confidence"] = best
        if len(winners) > 1:
            return reduced(Score.unscored(reason="tie"), scores, panel)
        return reduced(Score(value=winners[0]), scores, panel)

    def _names(self, size: int, sample: str) -> Sequence[str]:
        """Return the names of those who gave the scores.

        Where inspect_ai leaves out a member who declined, nobody knows which: the others count as
        people who are not known.
        """
        if self._members is None:
            self._members = [str(number + 1) for number in range(size)]
        if size > len(self._members):
            raise ValueError(f"{size} graders, but only {len(self._members)} members are named")
        if size < len(self._members):
            return [f"{sample}-{number}" for number in range(size)]
        return self._members

    def _learn(self, rows: Sequence[GradedRow]) -> None:
        self._rows += rows
        new = [vote for _, _, vote in rows if vote not in self._grades]
        if new:  # classes are fixed once labels are counted
            self._grades += dict.fromkeys(new)
            self._crowd = Settled(tuple(self._grades))
            rows = self._rows
        for sample, member, vote in rows:
            self._crowd.observe(sample, member, vote)
        self._crowd.settle(AT_REST)  # without it, the order of the members would matter


AT_REST = 1e-4
TIE = 10 * AT_REST


@score_reducer  # type: ignore[untyped-decorator]  # checked where it is not installed
def jury(members: Sequence[str] | None = None, grades: Sequence[Any] = GRADES) -> ScoreReducer:
    """Return a reducer that weighs the members of a panel.

    It goes where graders are: `model_graded_qa(model=[...], reducer=jury())`.

    `members` names the graders in their order; without, they are "1", "2" and so on. `grades` are
    those that they may give; any other that comes is added. A member that fails is a skip. A sample
    without a grade, or with a tie, is not scored: no order of the members decides. The metadata of
    each score has the votes and the probability of each grade under `panel`.
    """
    return PanelReducer(members, grades)


def crowd_of(
    log: EvalLog, scorer: str | None = None, members: Sequence[str] | None = None
) -> Settled[str, str, Any]:
    """Learn from all grades of a log at once, with `predict()`, `workers_` and `report_`.

    Tasks are the ids of samples (and the epoch, where there are several). What the reducer knew of
    the members at a sample's time no longer matters. `scorer` names one if there are several.
    """
    several = len({sample.epoch for sample in log.samples or ()}) > 1
    rows: list[GradedRow] = []
    for sample in log.samples or ():
        found = {
            name: score.metadata[PANEL]["votes"]
            for name, score in (sample.scores or {}).items()
            if score.metadata and PANEL in score.metadata and scorer in (None, name)
        }
        if len(found) > 1:
            raise ValueError(f"several panels have graded ({', '.join(found)}): name one of them")
        task = f"{sample.id} {sample.epoch}" if several else str(sample.id)
        for votes in found.values():
            names = members or [str(number + 1) for number in range(len(votes))]
            rows += [
                (task, name, vote)
                for name, vote in zip(names, votes, strict=True)
                if vote is not None
            ]
    if not rows:
        raise ValueError("the log has no grades of a panel: use the reducer jury")
    return Settled[str, str, Any]().fit(rows)


def vote_of(score: Score) -> Value | None:
    """Return the grade in a score; None for a member that failed."""
    value = score.value
    if isinstance(value, dict | list):
        raise ValueError(f"a panel needs one grade in each score, not {shown(value)}")
    return None if value is None or (isinstance(value, float) and isnan(value)) else value


def reduced(score: Score, scores: Sequence[Score], panel: dict[str, Any]) -> Score:
    """Return the score with what all scores have in common, and with the votes."""
    common = {
        field: values[0]
        for field in ("answer", "explanation")
        if scores and len(set(values := [getattr(each, field) for each in scores])) == 1
    }
    first = (scores[0].metadata if scores else None) or {}
    return score.model_copy(update={**common, "metadata": {**first, PANEL: panel}})
