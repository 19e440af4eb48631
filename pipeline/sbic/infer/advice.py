"""A report in sentences: whom to trust, who copies, what is wrong, and what to do next."""

from collections.abc import Iterator, Sequence
from typing import Any

from sbic.foreign import local_time, printable
from sbic.infer.report import Judge, JuryReport, Pair, as_object

FEW = 10  # gold tasks of a judge below which nothing is said of them
CHANCE = 0.05
MOST_NAMED = 3
NAME_CHARACTERS = 40


def findings(report: JuryReport) -> list[str]:
    """Return what was found, the most important first."""
    if not report.judges:
        return ["There are no labels yet."]
    parts = _on_judges, _on_jury, _on_pairs, _on_errors, _on_shares, _on_change
    return [sentence for part in parts for sentence in part(report)]


def next_steps(report: JuryReport) -> list[str]:
    """Return what to do next, if anything: what matters most first."""
    return list(_next_steps(report)) if report.judges else []


def as_json_object(report: JuryReport, of: str) -> dict[str, Any]:
    """Return a report on a project or a file as JSON, with its sentences first."""
    said = {"findings": findings(report), "next_steps": next_steps(report)}
    return {"of": of, **said, **as_object(report)}


def called(judge: Judge) -> str:
    """Return what people call a judge, as a terminal may show it.

    >>> ann = Judge("3", "Ann", 1, 0, 0.0, None, None, None, False, None, None)
    >>> called(ann), called(ann._replace(worker="x" * 50, name=None))
    ('Ann (3)', 'xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx...')
    """
    name = judge.worker if judge.name in (None, judge.worker) else f"{judge.name} ({judge.worker})"
    return short(name)


def cost(judge: Judge) -> str:
    """Return what the labels of a judge cost; a dash if the roster has no price.

    >>> ann = Judge("3", "Ann", 1, 0, 0.0, None, None, None, False, None, 1234.5)
    >>> cost(ann), cost(ann._replace(cost=None))
    ('1,234.5', '-')
    """
    return "-" if judge.cost is None else f"{judge.cost:,.6g}"


def short(name: str) -> str:
    """Return a name that others chose, for a sentence."""
    return printable(name if len(name) <= NAME_CHARACTERS else name[:NAME_CHARACTERS] + "...")


def _named(names: Sequence[str]) -> str:
    """Return some names, and how many more there are.

    >>> _named(["a"]), _named(["a", "b"]), _named(["a", "b", "c", "d", "e"])
    ('a', 'a and b', 'a, b, c and 2 more')
    """
    if len(names) > MOST_NAMED + 1:
        return f"{', '.join(names[:MOST_NAMED])} and {len(names) - MOST_NAMED} more"
    return " and ".join((", ".join(names[:-1]), names[-1])) if len(names) > 1 else names[0]


def _percents(ends: tuple[float, float]) -> str:
    return f"{ends[0]:.0%} to {ends[1]:.0%}"


def _count(number: float) -> str:
    """Return a count that may have a fraction, since a tie counts in part.

    >>> _count(31.5), _count(1200.0)
    ('31.5', '1,200')
    """
    return f"{number:,.1f}".removesuffix(".0")


# Judges one by one.


def _judged(report: JuryReport) -> list[Judge]:
    """Those of whom gold says something, the best first."""
    return [judge for judge in report.judges if judge.gold and judge.gold.tasks >= FEW]


def _is_shown(judge: Judge) -> bool:
    """Whether gold shows a judge to be better than always giving the most frequent answer."""
    return bool(judge.gold and judge.gold.interval[0] > judge.gold.base_rate)


def _no_better(report: JuryReport) -> list[Judge]:
    return [judge for judge in _judged(report) if not _is_shown(judge)]


def _on_judges(report: JuryReport) -> Iterator[str]:
    judged = _judged(report)
    if not judged:
        yield from _without_gold(report)
        return
    best, gold = judged[0], judged[0].gold
    assert gold
    said = (
        f"right on {gold.right:,} of {gold.tasks:,} gold tasks ({gold.accuracy:.0%}, 95 % interval "
        f"{_percents(gold.interval)}); always giving the most frequent answer would be right on "
        f"{gold.base_rate:.0%}"
    )
    if _is_shown(best):
        yield f"Trust {called(best)} most: {said}."
    else:
        yield f"Trust no judge yet: the best, {called(best)}, is {said}."
    peers = [
        called(judge) for judge in judged[1:] if _is_shown(judge) and (judge.behind or 0) >= CHANCE
    ]
    if peers:
        are = "are" if len(peers) > 1 else "is"
        yield f"{_named(peers)} {are} behind by no more than chance explains."
    poor = [judge for judge in _no_better(report) if judge is not best]
    if poor:
        each = [f"{called(judge)} ({judge.gold.accuracy:.0%})" for judge in poor if judge.gold]
        are = "are" if len(poor) > 1 else "is"
        yield f"{_named(each)} {are} not shown to be better than that most frequent answer."


def _without_gold(report: JuryReport) -> Iterator[str]:
    few = f"only {report.gold} gold tasks have labels" if report.gold else "no truth is known"
    known = [judge for judge in report.judges if judge.posterior]
    if not known:
        yield f"Nothing can be said of any judge: {few}."
        return
    best = max(known, key=lambda each: each.posterior.interval[0] if each.posterior else 0.0)
    assert best.posterior
    yield (
        f"Whom to trust rests on agreement alone, since {few}: by that {called(best)} is best, "
        f"with {best.posterior.accuracy:.0%} ({_percents(best.posterior.interval)}). All judges "
        "may be wrong together."
    )


def _on_jury(report: JuryReport) -> Iterator[str]:
    judged, jury = _judged(report), report.jury
    if judged and len(report.judges) > 1:
        best = judged[0].gold
        assert best
        of = "" if best.tasks == report.gold else f" of {best.tasks:,} that it answered"
        yield (
            f"Together, weighed, the judges are right on {jury.right:,} of {report.gold:,} gold "
            f"tasks; a plain majority on {_count(jury.majority_right)}, {called(judged[0])} alone "
            f"on {best.right:,}{of}."
        )
    if jury.votes is not None and jury.labels > 1:
        yield f"The {jury.labels:g} labels of a task are worth {jury.votes:.1f} independent votes."


# Pairs.


def copies(report: JuryReport) -> list[Pair]:
    """Pairs that share a vote."""
    return [pair for pair in report.pairs if pair.shared > 0]


def erring_together(report: JuryReport) -> list[Pair]:
    """Pairs whose errors on gold fall together more than chance explains, the most alike first."""
    tested = [pair for pair in report.pairs if pair.gold and pair.gold.chance is not None]
    found = [
        pair
        for pair in tested
        if pair.gold and (pair.gold.chance or 0.0) * len(tested) < CHANCE and pair.gold.same > 0
    ]
    return sorted(found, key=lambda pair: -pair.gold.share if pair.gold else 0.0)


def _both(report: JuryReport, pair: Pair) -> str:
    names = {judge.worker: called(judge) for judge in report.judges}
    return " and ".join(names[worker] for worker in pair.workers)


def _on_pairs(report: JuryReport) -> Iterator[str]:
    same = copies(report)
    for pair in same[:MOST_NAMED]:
        yield (
            f"{_both(report, pair)} copy each other: the same answer on "
            f"{pair.contested_agreement:.1%} of {pair.contested:,} tasks on which judges differ, "
            f"so {'they count as one' if pair.shared > 0.99 else 'they share a vote'}."
        )
    if len(same) > MOST_NAMED:
        yield f"{len(same) - MOST_NAMED:,} more pairs copy each other."
    others = [pair for pair in erring_together(report) if pair.shared == 0]
    if others and others[0].gold:
        errors, tested = others[0].gold, sum(pair.gold is not None for pair in report.pairs)
        yield (
            f"{len(others):,} of {tested:,} pairs err together more than chance explains, "
            f"{_both(report, others[0])} the most: of {errors.wrong:,.0f} gold tasks on which one "
            f"of them is wrong, both give the same wrong answer on {errors.same:,.0f}."
        )
    elif _judged(report) and report.pairs and not same:
        yield "No two judges are shown to err together on gold by more than chance."


# All together.


def _on_errors(report: JuryReport) -> Iterator[str]:
    wrong = report.wrong
    if wrong is None:
        return
    if not wrong.tasks:
        missed = report.gold - report.jury.right
        yield (
            f"Of {report.gold:,} tasks with a known truth {missed:,} would be predicted wrongly "
            f"without it ({missed / report.gold:.1%})."
        )
    elif wrong.share is None or wrong.interval is None:
        yield (
            f"About {wrong.expected:,.0f} of {wrong.tasks:,} predictions are wrong "
            f"({wrong.expected / wrong.tasks:.1%}), by labels alone: no two gold tasks check it."
        )
    else:
        low, high = wrong.interval
        yield (
            f"About {wrong.share * wrong.tasks:,.0f} of {wrong.tasks:,} predictions are wrong "
            f"({wrong.share:.1%}; by {report.gold:,} gold tasks between {low:.1%} and {high:.1%})."
        )
    if wrong.is_contradicted:
        yield (
            f"Gold contradicts labels, which alone expect {wrong.expected_on_gold:,.1f} of "
            f"{report.gold:,} gold tasks predicted wrongly, not {wrong.on_gold:,}."
        )


def _on_shares(report: JuryReport) -> Iterator[str]:
    most = sorted(report.shares.items(), key=lambda each: -each[1].share)[:MOST_NAMED]
    if not most:
        return
    each = [
        f"'{short(name)}' {share:.1%}" + (f" ({ends[0]:.1%} to {ends[1]:.1%})" if ends else "")
        for name, (share, ends) in most
    ]
    of = "gold tasks" if report.gold_only else "all tasks, corrected by gold"
    basis = of if most[0][1].interval else "all tasks, by labels alone"
    more = len(report.shares) - len(each)
    yield f"Share of {basis}: {', '.join(each)}{f' and {more} more classes' if more > 0 else ''}."


def _on_change(report: JuryReport) -> Iterator[str]:
    for judge in [judge for judge in report.judges if judge.drifting][:MOST_NAMED]:
        since = local_time(judge.drifting or 0)
        yield f"{called(judge)} answers otherwise than before since {since}."
    against = [called(judge) for judge in report.judges if judge.contradicted]
    if against and not report.gold_only:
        yield f"Gold contradicts what labels say of {_named(against)}."


def _next_steps(report: JuryReport) -> Iterator[str]:
    more = report.next
    if more.gold and not more.halves:
        total = f", {report.gold + more.gold} in all" if report.gold else ""
        yield (
            f"Have people judge {more.gold:,} tasks drawn at random{total}, and give their "
            "verdicts as gold: without them nobody knows whether all judges err together."
        )
    poor = [called(judge) for judge in _no_better(report)]
    if poor and len(poor) < len(report.judges):
        yield f"Replace or instruct anew {_named(poor)}."
    same = copies(report)
    if same:
        leave = "one of each pair" if len(same) > 1 else f"one of {_both(report, same[0])}"
        yield f"Leave out {leave} that copies: the answers of the other say as much."
    drifting = [called(judge) for judge in report.judges if judge.drifting]
    if drifting:
        yield f"Look at what has changed with {_named(drifting)}."
    jury = report.jury
    is_worth_little = jury.votes is not None and jury.labels >= 3 and jury.votes < jury.labels / 2
    if is_worth_little or any(pair.shared == 0 for pair in erring_together(report)):
        yield (
            "More judges of the same kind would add little: add one of another kind, or people "
            "for the tasks that are least certain."
        )
    if more.halves:
        yield (
            f"To halve the intervals, have people judge {more.gold:,} more tasks drawn at random."
        )
