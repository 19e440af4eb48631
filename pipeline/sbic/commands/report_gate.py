"""`sbic report --require`: rules that a report has to meet, and their outcomes as JUnit XML."""

import re
from collections.abc import Callable, Sequence
from typing import Literal, NamedTuple, Self
from xml.sax.saxutils import quoteattr

import click

from sbic.foreign import printable, shown
from sbic.infer.report import Judge, JuryReport

ENOUGH_GOLD = 30
RULE = re.compile(
    r"(?:(?P<judge>.+):)?\s*(?P<measure>[a-z]+)\s*(?P<sign>>=|<=|>|<)\s*"
    r"(?P<bound>-?[0-9]*\.?[0-9]+)\s*(?P<percent>%)?(?:\s+with\s+(?P<gold>[0-9]{1,9})\s+gold)?",
    re.DOTALL,
)
SIGNS: dict[str, Callable[[float, float], bool]] = {
    ">=": lambda value, bound: value >= bound,
    "<=": lambda value, bound: value <= bound,
    ">": lambda value, bound: value > bound,
    "<": lambda value, bound: value < bound,
}
OF_JUDGE: dict[str, Callable[[Judge], float | None]] = {
    "accuracy": lambda judge: judge.gold and judge.gold.accuracy,
    "kappa": lambda judge: judge.gold and judge.gold.kappa,
    "low": lambda judge: judge.gold and judge.gold.interval[0],
    "skips": lambda judge: judge.skip_share,
}
OF_PROJECT: dict[str, Callable[[JuryReport], float | None]] = {
    "ece": lambda report: report.calibration and report.calibration.ece,
    "wrong": lambda report: _share_wrong(report),
    "alpha": lambda report: report.jury.alpha,
    "ordinal": lambda report: report.jury.ordinal_alpha,
    "votes": lambda report: report.jury.votes,
}
WITHOUT_GOLD = ("skips", "alpha", "ordinal", "votes")
FORM = "[JUDGE:] MEASURE >= NUMBER [with N gold]"


def _share_wrong(report: JuryReport) -> float | None:
    if report.wrong and report.wrong.share is not None:
        return report.wrong.share
    is_all_gold = report.wrong is not None and not report.wrong.tasks and report.gold > 0
    return 1 - report.jury.right / report.gold if is_all_gold else None


class Requirement(NamedTuple):
    """A rule as it was written, and what it means; `gold` is how much of it the rule asks for."""

    text: str
    judge: str | None
    measure: str
    sign: str
    bound: float
    gold: int

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read a rule; a wrong one is a usage error that says what is allowed.

        >>> Requirement.parse("gpt: 5: accuracy >= 85 % with 50 gold")[1:]
        ('gpt: 5', 'accuracy', '>=', 0.85, 50)
        >>> Requirement.parse("ece <= 0.05")[1:]
        (None, 'ece', '<=', 0.05, 30)
        """
        found = RULE.fullmatch(text.strip())
        if not found:
            raise _not_a_rule(text, f"is not {FORM}, with one of >= <= > <")
        judge = found["judge"].strip() if found["judge"] else None
        known = OF_PROJECT if judge is None else OF_JUDGE
        if found["measure"] not in known:
            whom = "the project" if judge is None else "a judge"
            other = OF_JUDGE if judge is None else OF_PROJECT
            hint = ""
            if found["measure"] in other:
                hint = "; name the judge first" if judge is None else "; leave out the judge"
            raise _not_a_rule(text, f"of {whom} there are {', '.join(known)}{hint}")
        bound = float(found["bound"]) / (100 if found["percent"] else 1)
        least = 0 if found["measure"] in WITHOUT_GOLD else ENOUGH_GOLD
        gold = int(found["gold"]) if found["gold"] else least
        return cls(text.strip(), judge, found["measure"], found["sign"], bound, gold)


def _not_a_rule(text: str, problem: str) -> click.UsageError:
    return click.UsageError(f"--require {shown(text)}: {problem}")


class RuleOutcome(NamedTuple):
    """Whether a rule holds, fails or cannot be decided; and a line that says so."""

    rule: Requirement
    result: Literal["holds", "fails", "unknown"]
    said: str

    @property
    def holds(self) -> bool:
        """Whether the rule holds."""
        return self.result == "holds"


def checked(rule: Requirement, report: JuryReport) -> RuleOutcome:
    """Whether a report meets a rule; a judge that it does not have is a usage error."""
    if rule.judge is None:
        value, gold = OF_PROJECT[rule.measure](report), report.gold
    else:
        judge = _judge(rule, report)
        value, gold = OF_JUDGE[rule.measure](judge), judge.gold.tasks if judge.gold else 0
    if gold < rule.gold:
        fewer = f"; to make do with fewer: with {gold} gold" if gold else ""
        said = f"cannot say: {rule.text}: there are {gold:,} gold tasks, not {rule.gold:,}{fewer}"
        return RuleOutcome(rule, "unknown", said)
    if value is None:
        return RuleOutcome(rule, "unknown", f"cannot say: {rule.text}: {rule.measure} is not known")
    if SIGNS[rule.sign](value, rule.bound):
        return RuleOutcome(rule, "holds", f"holds: {rule.text}: it is {value:.4g}")
    return RuleOutcome(rule, "fails", f"fails: {rule.text}: it is {value:.4g}")


def _judge(rule: Requirement, report: JuryReport) -> Judge:
    named = [judge for judge in report.judges if rule.judge in (judge.worker, judge.name)]
    if not named:
        known = ", ".join(shown(judge.worker) for judge in report.judges[:10])
        more = ", ..." if len(report.judges) > 10 else ""
        raise _not_a_rule(rule.text, f"no judge is called so; there are {known or 'none'}{more}")
    return next((judge for judge in named if judge.worker == rule.judge), named[0])


def status_of(outcomes: Sequence[RuleOutcome]) -> int:
    """Return the exit status: 1 if a rule fails, 2 if one cannot be decided, otherwise 0."""
    results = {outcome.result for outcome in outcomes}
    return 1 if "fails" in results else 2 if "unknown" in results else 0


def junit(outcomes: Sequence[RuleOutcome], title: str) -> bytes:
    """Return the outcomes as CI reads them: what cannot be decided is an error.

    >>> rule = Requirement.parse("ece <= 0.05")
    >>> print(junit([RuleOutcome(rule, "fails", "fails: it is 0.2")], "x").decode())
    ... # doctest: +ELLIPSIS
    <?xml ...
    <testsuite name="sbic report" tests="1" failures="1" errors="0">
      <testcase classname="x" name="ece &lt;= 0.05"><failure message="fails: it is 0.2"/></testcase>
    </testsuite>
    <BLANKLINE>
    """
    kinds = {"fails": "failure", "unknown": "error"}
    failures = sum(outcome.result == "fails" for outcome in outcomes)
    errors = sum(outcome.result == "unknown" for outcome in outcomes)
    lines = [
        '<?xml version="1.0" encoding="UTF-8"?>',
        f'<testsuite name="sbic report" tests="{len(outcomes)}" failures="{failures}" '
        f'errors="{errors}">',
    ]
    for outcome in outcomes:
        kind = kinds.get(outcome.result)
        inner = f"<{kind} message={_attribute(outcome.said)}/>" if kind else ""
        names = f"classname={_attribute(title)} name={_attribute(outcome.rule.text)}"
        lines.append(f"  <testcase {names}>{inner}</testcase>")
    return "\n".join([*lines, "</testsuite>", ""]).encode()


def _attribute(text: str) -> str:
    """Return a text as an attribute of XML, which has no form for most control characters."""
    return quoteattr(printable(text))
