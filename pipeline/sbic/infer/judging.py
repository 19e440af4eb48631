"""Judges judged: a report from labels, what is published of their tasks, and known truths.

Pure: arrays go in. `advice` says in sentences what it comes to.
"""

from collections.abc import Iterator, Sequence
from hashlib import blake2b

import numpy as np
from numpy.typing import NDArray

from sbic.engine.copies import ALIKE, COMMON
from sbic.engine.labels import Floats, Ints
from sbic.engine.outside import Moments, prediction_powered
from sbic.infer.agreement import (
    MOST_CLASSES,
    NOT_GIVEN,
    JudgePairs,
    base_rate,
    by_chance,
    calibration_error,
    cohen_kappa,
    coincidences,
    confusion,
    krippendorff_alpha,
    pair_counts,
    reliability,
    sign_test,
)
from sbic.infer.evidence import UNKNOWN, JudgeFacts, JuryEvidence
from sbic.infer.intervals import wilson
from sbic.infer.report import (
    ByPosterior,
    Calibration,
    CommonErrors,
    Judge,
    Jury,
    JuryReport,
    Next,
    OnGold,
    Pair,
    Share,
    Wrong,
)

MOST_JUDGES = 50  # those with the most labels; pairs grow with the square
TASKS_AT_ONCE = 5_000  # the matrices of judges stay small
FIRST_GOLD = 50  # gold tasks with which a report says something
MOST_NEXT = 1000  # tasks named to be judged next
NINETY = 0.9


def report_on(evidence: JuryEvidence, *, gold_only: bool = False) -> JuryReport:
    """Make the report; with `gold_only` nothing rests on the truth of tasks that are not gold.

    >>> answers = np.array([0, 1, 0, 0, 1, 1])
    >>> half = np.full((3, 2), 0.5)
    >>> known = [JudgeFacts(name, 0.7, (0.5, 0.9)) for name in ("ann", "bob")]
    >>> found = report_on(JuryEvidence(("cat", "dog"), ("t1", "t2", "t3"), np.repeat([0, 1, 2], 2),
    ...     np.tile([0, 1], 3), answers, known, half, np.array([0, 0, -1])))
    >>> [(judge.worker, judge.gold.right) for judge in found.judges], found.pairs[0].agreement
    ([('ann', 2), ('bob', 1)], 0.6666666666666666)
    """
    counts = np.bincount(evidence.judges, minlength=len(evidence.facts))
    names = [facts.worker for facts in evidence.facts]
    every = sorted(np.flatnonzero(counts).tolist(), key=lambda j: (-counts[j], names[j]))
    # in the order of names: of equals, the order must not depend on which label came first
    chosen = np.array(sorted(every[:MOST_JUDGES], key=names.__getitem__), np.int64)
    given = np.bincount(evidence.tasks, minlength=len(evidence.golds))
    is_gold = (evidence.golds != UNKNOWN) & (given > 0)
    judges = _judges(evidence, chosen, counts, gold_only=gold_only)
    return JuryReport(
        evidence.classes,
        gold_only,
        len(evidence.answers),
        int((given > 0).sum()),
        int(is_gold.sum()),
        int((counts > 0).sum()),
        judges,
        _pairs(evidence, chosen, is_gold, gold_only=gold_only),
        _jury(evidence, given, is_gold),
        _calibration(evidence, is_gold),
        None if gold_only else _wrong(evidence, given > 0, is_gold),
        _shares(evidence, is_gold, gold_only=gold_only),
        _next(evidence, given > 0, int(is_gold.sum())),
    )


def _judges(evidence: JuryEvidence, chosen: Ints, counts: Ints, *, gold_only: bool) -> list[Judge]:
    truth = evidence.golds[evidence.tasks]
    on_gold = np.flatnonzero((truth != UNKNOWN) & np.isin(evidence.judges, chosen))
    who = evidence.judges[on_gold]
    order = on_gold[np.argsort(who, kind="stable")]
    ends = np.searchsorted(evidence.judges[order], np.stack((chosen, chosen + 1)))
    rows = [order[first:end] for first, end in ends.T.tolist()]
    classes = len(evidence.classes)
    known = [
        _on_gold(confusion(truth[some], evidence.answers[some], classes)) if len(some) else None
        for some in rows
    ]
    behind = _behind(evidence, rows, known)
    found = []
    for row, j in enumerate(chosen.tolist()):
        facts, labels = evidence.facts[j], int(counts[j])
        found.append(
            Judge(
                facts.worker,
                facts.name,
                labels,
                facts.skips,
                facts.skips / (facts.skips + labels),
                known[row],
                None if gold_only else _by_posterior(facts),
                behind[row],
                facts.contradicted,
                facts.drifting,
                None if facts.price is None else facts.price * labels,
            )
        )
    return sorted(found, key=_rank, reverse=True)  # stable: of equals, by name


def _rank(judge: Judge) -> tuple[float, float]:
    """Return the order of judges: by what gold says, of others by what all labels say at least."""
    if judge.gold:
        return 1 + judge.gold.accuracy, judge.gold.interval[0]
    return (judge.posterior.interval[0] if judge.posterior else 0.0), 0.0


def _on_gold(table: Floats) -> OnGold:
    tasks, right = int(table.sum()), int(np.trace(table))
    counts = [list(map(int, row)) for row in table.tolist()] if len(table) <= MOST_CLASSES else None
    share, ends = right / tasks, wilson(right, tasks)
    return OnGold(tasks, right, share, ends, base_rate(table), cohen_kappa(table), counts)


def _by_posterior(facts: JudgeFacts) -> ByPosterior | None:
    if facts.accuracy is None:
        return None
    rows = facts.confusion
    few = rows if rows is not None and len(rows) <= MOST_CLASSES else None
    return ByPosterior(facts.accuracy, facts.interval, few)


def _behind(
    evidence: JuryEvidence, rows: list[Ints], known: list[OnGold | None]
) -> list[float | None]:
    """How probable it is that each judge is so far behind the best one on gold by chance."""
    found: list[float | None] = [None] * len(rows)
    ranks = {row: (gold.accuracy, gold.interval[0]) for row, gold in enumerate(known) if gold}
    if not ranks:
        return found
    best = max(ranks, key=ranks.__getitem__)
    is_right = np.full(len(evidence.golds), UNKNOWN, np.int8)
    is_right[evidence.tasks[rows[best]]] = _is_right(evidence, rows[best])
    for row in ranks.keys() - {best}:
        here, other = _is_right(evidence, rows[row]), is_right[evidence.tasks[rows[row]]]
        common = other != UNKNOWN
        wins = int((here < other)[common].sum()), int((here > other)[common].sum())
        found[row] = sign_test(*wins)
    return found


def _is_right(evidence: JuryEvidence, rows: Ints) -> NDArray[np.int8]:
    is_right = evidence.answers[rows] == evidence.golds[evidence.tasks[rows]]
    found: NDArray[np.int8] = is_right.astype(np.int8)
    return found


# Pairs.


def _pairs(
    evidence: JuryEvidence, chosen: Ints, is_gold: NDArray[np.bool_], *, gold_only: bool
) -> list[Pair]:
    if len(chosen) < 2:
        return []
    every, on_gold = None, None
    for answers, p, is_contested, gold in _pieces(evidence, chosen, is_gold):
        part = pair_counts(answers, p, is_contested)
        every = part if every is None else every.plus(part)
        if gold.any():
            part = pair_counts(answers[gold], p[gold], is_contested[gold])
            on_gold = part if on_gold is None else on_gold.plus(part)
    assert every is not None
    names = [evidence.facts[j].worker for j in chosen.tolist()]
    return list(_listed(names, every, on_gold, gold_only=gold_only))


def _pieces(
    evidence: JuryEvidence, chosen: Ints, is_gold: NDArray[np.bool_]
) -> Iterator[tuple[Ints, Floats, NDArray[np.bool_], NDArray[np.bool_]]]:
    """Yield some tasks at a time: answers, probabilities, what is contested, what is gold."""
    place = np.full(len(evidence.facts), UNKNOWN)
    place[chosen] = np.arange(len(chosen))
    most, least = np.full(len(is_gold), -1), np.full(len(is_gold), len(evidence.classes))
    np.maximum.at(most, evidence.tasks, evidence.answers)
    np.minimum.at(least, evidence.tasks, evidence.answers)
    rows = np.flatnonzero(place[evidence.judges] != UNKNOWN)
    rows = rows[np.argsort(evidence.tasks[rows], kind="stable")]
    tasks = evidence.tasks[rows]
    for first in range(0, len(is_gold), TASKS_AT_ONCE):
        end = min(first + TASKS_AT_ONCE, len(is_gold))
        some = rows[slice(*np.searchsorted(tasks, (first, end)))]
        answers = np.full((end - first, len(chosen)), NOT_GIVEN, np.int64)
        answers[evidence.tasks[some] - first, place[evidence.judges[some]]] = evidence.answers[some]
        piece, gold = slice(first, end), is_gold[first:end]
        p = evidence.beliefs[piece].copy()
        p[gold] = evidence.golds[piece][gold, None] == np.arange(p.shape[1])
        yield answers, p, most[piece] > least[piece], gold


def _listed(
    names: list[str], every: JudgePairs, on_gold: JudgePairs | None, *, gold_only: bool
) -> Iterator[Pair]:
    """Each pair with anything in common, those who agree most where judges differ first."""
    kappas = every.kappas
    contested = every.contested_same / np.maximum(every.contested, 1)
    first, second = np.triu_indices(len(names), 1)
    order = np.lexsort((-every.both[first, second], -contested[first, second]))
    for a, b in zip(first[order].tolist(), second[order].tolist(), strict=True):
        both, same, apart = every.both[a, b], every.same[a, b], every.contested[a, b]
        if not both:
            continue
        share = float(contested[a, b]) if apart else None
        is_copy = share is not None and apart >= COMMON
        yield Pair(
            (names[a], names[b]),
            int(both),
            float(same / both),
            None if kappas is None or np.isnan(kappas[a, b]) else float(kappas[a, b]),
            int(apart),
            share,
            min(max(0.0, ((share or 0.0) - ALIKE) / (1 - ALIKE)), 1.0) if is_copy else 0.0,
            None if on_gold is None else _errors(on_gold, a, b, is_exact=True),
            None if gold_only else _errors(every, a, b, is_exact=False),
        )


def _errors(counts: JudgePairs, a: int, b: int, *, is_exact: bool) -> CommonErrors | None:
    both, right = counts.both[a, b], counts.right[a, b]
    if not both:
        return None
    same, chance = float(counts.same[a, b] - right), None
    if is_exact:
        wrong = counts.wrong[a, b], counts.wrong[b, a], counts.wrong_together[a, b]
        chance = by_chance(int(both), *(round(float(each)) for each in wrong))
    return CommonErrors(float(both - right), max(same, 0.0), chance)


# All together.


def _jury(evidence: JuryEvidence, given: Ints, is_gold: NDArray[np.bool_]) -> Jury:
    classes, has_labels = len(evidence.classes), given > 0
    pairs = coincidences(evidence.tasks, evidence.answers, classes)
    votes = None if evidence.votes is None else evidence.votes[has_labels & (evidence.votes > 0)]
    right = evidence.beliefs[is_gold].argmax(axis=1) == evidence.golds[is_gold]
    return Jury(
        float(np.median(given[has_labels])) if has_labels.any() else 0.0,
        float(np.median(votes)) if votes is not None and len(votes) else None,
        evidence.dependence,
        krippendorff_alpha(pairs),
        krippendorff_alpha(pairs, is_ordered=True),
        int((given > 1).sum()),
        int(right.sum()),
        _majority_right(evidence, is_gold),
    )


def _majority_right(evidence: JuryEvidence, is_gold: NDArray[np.bool_]) -> float:
    """On how many gold tasks the most frequent answer is right; of m such answers each by 1/m."""
    some, classes = np.flatnonzero(is_gold[evidence.tasks]), len(evidence.classes)
    keys = evidence.tasks[some] * classes + evidence.answers[some]
    found, counts = np.unique(keys, return_counts=True)
    tasks, answers = found // classes, found % classes
    most = np.zeros(len(is_gold), np.int64)
    np.maximum.at(most, tasks, counts)
    is_most = counts == most[tasks]
    ties = np.bincount(tasks, is_most, len(is_gold))
    is_right = is_most & (answers == evidence.golds[tasks])
    return float((is_right / ties[tasks]).sum())


def _calibration(evidence: JuryEvidence, is_gold: NDArray[np.bool_]) -> Calibration | None:
    p, truth = evidence.beliefs[is_gold], evidence.golds[is_gold]
    if not len(truth):
        return None
    is_right, sure = p.argmax(axis=1) == truth, p.max(axis=1)
    ece = calibration_error(sure, is_right.astype(np.float64))
    return Calibration(ece, reliability(sure, is_right))


CHANCE = 2.6  # standard deviations: one project in a hundred is told so by chance


def contradicts_expected(gold: int, wrong: int, expected: float) -> bool:
    """Whether gold differs from what was expected of it by more than chance.

    >>> contradicts_expected(30, 12, 3.0), contradicts_expected(30, 4, 3.0)
    (True, False)
    """
    share = expected / gold if gold else 0.0
    return bool(abs(wrong - expected) > 1 + CHANCE * (gold * share * (1 - share)) ** 0.5)


def _wrong(
    evidence: JuryEvidence, has_labels: NDArray[np.bool_], is_gold: NDArray[np.bool_]
) -> Wrong:
    doubts = 1 - evidence.beliefs.max(axis=1)
    others, gold = doubts[has_labels & (evidence.golds == UNKNOWN)], int(is_gold.sum())
    is_wrong = evidence.beliefs[is_gold].argmax(axis=1) != evidence.golds[is_gold]
    share, interval = None, None
    if gold > 1 and len(others):
        columns = others, doubts[is_gold], is_wrong.astype(np.float64)
        (share,), (half,) = prediction_powered(Moments.of(*(each[:, None] for each in columns)))
        share = min(max(float(share), 0.0), 1.0)
        interval = max(0.0, share - float(half)), min(1.0, share + float(half))
    wrong, expected = evidence.free or (int(is_wrong.sum()), float(doubts[is_gold].sum()))
    return Wrong(
        len(others),
        float(others.sum()),
        share,
        interval,
        wrong,
        expected,
        contradicts_expected(gold, wrong, expected),
    )


def _shares(
    evidence: JuryEvidence, is_gold: NDArray[np.bool_], *, gold_only: bool
) -> dict[str, Share]:
    """Return the share of each class: of gold alone, or of all tasks, corrected by gold."""
    names, golds = evidence.classes, evidence.golds
    if gold_only:
        truth = golds[golds != UNKNOWN]
        counts = np.bincount(truth, minlength=len(names)).tolist()
        trials = len(truth)
        return {
            name: Share(count / trials, wilson(count, trials, NINETY))
            for name, count in zip(names, counts, strict=True)
            if trials
        }
    found = evidence.shares
    if found is None:
        known = np.isin(np.arange(len(golds)), evidence.tasks) | (golds != UNKNOWN)
        found = Moments.of_shares(evidence.beliefs[known], golds[known])
    return shares_of(names, found)


def shares_of(names: Sequence[str], found: Moments) -> dict[str, Share]:
    """Return the share of each class by these moments; without an interval before there is gold."""
    if not found.tasks:
        return {}
    if found.golds < 2:
        means = (found.every[0] / found.tasks).tolist()
        return {name: Share(mean, None) for name, mean in zip(names, means, strict=True)}
    each = zip(names, *prediction_powered(found).tolist(), strict=True)
    return {
        name: Share(share, (max(0.0, share - half), min(1.0, share + half)))
        for name, share, half in each
    }


def _next(evidence: JuryEvidence, has_labels: NDArray[np.bool_], gold: int) -> Next:
    """Tasks at random, always in the same order: only random gold says what holds of all tasks."""
    more = FIRST_GOLD - gold if gold < FIRST_GOLD else 3 * gold
    open_tasks = np.flatnonzero(has_labels & (evidence.golds == UNKNOWN)).tolist()
    names = sorted((evidence.task_names[i] for i in open_tasks), key=_random_order)
    more = min(more, len(names))
    return Next(more, gold >= FIRST_GOLD and more == 3 * gold, names[: min(more, MOST_NEXT)])


def _random_order(name: str) -> bytes:
    return blake2b(name.encode(errors="surrogatepass"), digest_size=8).digest()
