"""Estimates: the owner of a partition publishes them about its tasks and workers.

Every instance consumes them. They are published as they change, and completely after every
rebalance or on request, so that an instance that starts to consume then has all of them.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sbic.engine.labels import Floats
from sbic.engine.outside import Moments
from sbic.engine.state import ELSEWHERE, Sums
from sbic.wire.bad import BadRecord, parser
from sbic.wire.columns import NOT_OURS, Columns, encode_columns
from sbic.wire.workers import TIERS

CANDIDATE_ROWS, CANDIDATE_COLUMNS = 160, 4


class Numbered(NamedTuple):
    """The tasks or workers of the rows, by the numbers that their owner has given them.

    `names` are those of the numbers from `first` on, which are published for the first time.
    """

    first: int
    names: list[str]
    numbers: NDArray[np.int32]


class Beliefs(NamedTuple):
    """For each task: its labels, gold class or -1, whether it is open, votes, and scores.

    `tiers` and `left` are sent only where tasks escalate; otherwise they are 0.
    """

    tasks: Numbered
    labels: NDArray[np.int32]
    gold: NDArray[np.int16]
    is_open: NDArray[np.bool_]
    votes: Floats
    scores: Floats
    tiers: NDArray[np.int8]
    left: NDArray[np.int32]


class Counts(NamedTuple):
    """For each worker: a row of C."""

    workers: Numbered
    counts: Floats


class PairCounts(NamedTuple):
    """For each pair of `names`, by their places: the counts of `engine.copies.Pairs`.

    All pairs of which the instance tells; it replaces what the partition's owner told before.
    """

    names: list[str]
    first: NDArray[np.int32]
    second: NDArray[np.int32]
    both: NDArray[np.int32]
    same: NDArray[np.int32]
    alike: Floats
    either: Floats
    named: NDArray[np.bool_]


class Shares(NamedTuple):
    """For each label that shares a vote: its task, its worker's place in `names`, and c."""

    tasks: Numbered
    names: list[str]
    workers: NDArray[np.int32]
    shares: Floats


class Said(NamedTuple):
    """What the roster says of workers of the partition; `groups` are places in `group_names`.

    With `replaces` it is all that is said of any.
    """

    names: list[str]
    tiers: NDArray[np.int8]
    are_members: NDArray[np.bool_]
    units: NDArray[np.int64]
    group_names: list[str]
    groups: NDArray[np.int32]
    are_barred: NDArray[np.bool_]
    replaces: bool


class Skips(NamedTuple):
    """Tasks that workers of the partition have skipped: pairs of places in the names."""

    workers: list[str]
    tasks: list[str]
    pairs: NDArray[np.int32]


class Spent(NamedTuple):
    """Units of money that the labels of the partition's workers cost."""

    units: int


class Whole(NamedTuple):
    """All tasks and workers of the partition have been published; `sums` are its part."""

    sums: Sums


class Rest(NamedTuple):
    """Whether the instance that owns the partition is at rest, and how many tasks are due.

    For people and tools; instances ignore it.
    """

    is_at_rest: bool
    due: int


class Ask(NamedTuple):
    """The owner of the partition requests complete estimates from all others.

    It was restarted without a rebalance, as a static member of the group.
    """


class Findings(NamedTuple):
    """What an instance finds out about its own tasks, for the others and for status.

    `dependence` is that in force. Of `gold` tasks with labels `wrong` would be predicted wrongly by
    labels alone, where these expect `expected`. `shares` are of the classes, and `candidates` the
    tasks that `stop_error` may close: see `instance.survey`.
    """

    dependence: float
    gold: int
    wrong: int
    expected: float
    shares: Moments
    candidates: Floats

    def plus(self, other: "Findings") -> "Findings":
        """Return what two instances find; the dependence is the same for all."""
        return Findings(
            self.dependence,
            self.gold + other.gold,
            self.wrong + other.wrong,
            self.expected + other.expected,
            self.shares.plus(other.shares),
            self.candidates + other.candidates,
        )


Estimates = (
    Beliefs
    | Counts
    | PairCounts
    | Shares
    | Said
    | Skips
    | Spent
    | Sums
    | Whole
    | Rest
    | Ask
    | Findings
)


def encode_estimates(epoch: int, estimates: Estimates) -> bytes:
    """Return the value of a record with the owner's epoch.

    >>> workers = Numbered(5, ["w1"], np.array([5], np.int32))
    >>> value = encode_estimates(3, Counts(workers, np.array([[2.0, 1.5, 1.0, 1.0]])))
    >>> epoch, estimates = parse_estimates(value, classes=2)
    >>> estimates.workers.names, estimates.counts.tolist()
    (['w1'], [[2.0, 1.5, 1.0, 1.0]])
    """
    fields: dict[str, object] = {"epoch": epoch}
    match estimates:
        case Beliefs():
            columns = [
                _add_numbered(fields, estimates.tasks),
                estimates.labels.astype("<i4"),
                estimates.gold.astype("<i2"),
                estimates.is_open.astype("?"),
                estimates.votes,
                estimates.scores,
            ]
            if estimates.tiers.any():
                fields["tiered"] = 1
                columns += [estimates.tiers.astype("<i1"), estimates.left.astype("<i4")]
            return encode_columns("beliefs", fields, columns)
        case Counts():
            return encode_columns(
                "counts", fields, (_add_numbered(fields, estimates.workers), estimates.counts)
            )
        case PairCounts():
            names, first, second, both, same, alike, either, named = estimates
            fields |= {"rows": len(named), "workers": names}
            whole = [column.astype("<i4") for column in (first, second, both, same)]
            return encode_columns("pairs", fields, [*whole, alike, either, named.astype("?")])
        case Shares():
            fields["workers"] = estimates.names
            tasks, places = _add_numbered(fields, estimates.tasks), estimates.workers.astype("<i4")
            return encode_columns("shares", fields, (tasks, places, estimates.shares))
        case Said():
            names, tiers, members, units, group_names, groups, barred, replaces = estimates
            fields |= {"workers": names, "groups": group_names, "replaces": int(replaces)}
            said = [tiers.astype("<i1"), members.astype("?"), units.astype("<i8")]
            return encode_columns("said", fields, [*said, groups.astype("<i4"), barred.astype("?")])
        case Skips():
            fields |= {"workers": estimates.workers, "tasks": estimates.tasks}
            fields["rows"] = len(estimates.pairs)
            return encode_columns("skips", fields, [estimates.pairs.astype("<i4")])
        case Spent():
            return encode_columns("spent", fields, [np.array([estimates.units], "<i8")])
        case Whole():
            return encode_columns("whole", fields, (_as_column(estimates.sums),))
        case Rest():
            fields["due"], fields["at_rest"] = estimates.due, int(estimates.is_at_rest)
            return encode_columns("rest", fields, ())
        case Ask():
            return encode_columns("ask", fields, ())
        case Findings():
            return _encode_findings(fields, estimates)
    return encode_columns("sums", fields, (_as_column(estimates),))


@parser
def parse_estimates(value: bytes | None, classes: int) -> tuple[int, Estimates]:
    """Return the epoch and the estimates in a record's value, or `BadRecord`."""
    record = Columns(value)
    epoch = record.number("epoch")
    estimates: Estimates
    if record.kind == "beliefs":
        tasks = _numbered(record)
        rows = len(tasks.numbers)
        labels, gold = record.column("<i4", rows), record.column("<i2", rows)
        is_open, votes = record.column("?", rows), record.column("<f8", rows)
        scores = record.column("<f8", rows, classes)
        tiers, left = np.zeros(rows, np.int8), np.zeros(rows, np.int32)
        if "tiered" in record.fields:
            tiers, left = record.column("<i1", rows), record.column("<i4", rows)
        estimates = Beliefs(tasks, labels, gold, is_open, votes, scores, tiers, left)
    elif record.kind == "counts":
        workers = _numbered(record)
        estimates = Counts(workers, record.column("<f8", len(workers.numbers), classes**2))
    elif record.kind == "pairs":
        rows = record.number("rows")
        first, second, both, same = (record.column("<i4", rows) for _ in range(4))
        alike, either = record.column("<f8", rows), record.column("<f8", rows)
        counts = first, second, both, same, alike, either
        estimates = PairCounts(record.names("workers"), *counts, record.column("?", rows))
    elif record.kind == "shares":
        tasks = _numbered(record)
        rows = len(tasks.numbers)
        places, shares = record.column("<i4", rows), record.column("<f8", rows)
        estimates = Shares(tasks, record.names("workers"), places, shares)
    elif record.kind == "said":
        names = record.names("workers")
        kinds = "<i1", "?", "<i8", "<i4", "?"
        tiers, members, units, groups, barred = (record.column(kind, len(names)) for kind in kinds)
        group_names, replaces = record.names("groups"), bool(record.number("replaces"))
        if not (are_places(groups, len(group_names)) and are_places(tiers, TIERS[-1] + 1)):
            raise NOT_OURS
        estimates = Said(names, tiers, members, units, group_names, groups, barred, replaces)
    elif record.kind == "skips":
        pairs = record.column("<i4", record.number("rows"), 2)
        estimates = Skips(record.names("workers"), record.names("tasks"), pairs)
        whose, which = pairs.T
        if not are_places(whose, len(estimates.workers)) & are_places(which, len(estimates.tasks)):
            raise NOT_OURS
    elif record.kind == "spent":
        estimates = Spent(int(record.column("<i8", 1)[0]))
    elif record.kind in ("sums", "whole"):
        sums = record.column("<f8", ELSEWHERE + classes)
        estimates = Sums(sums[:ELSEWHERE], sums[ELSEWHERE:])
        if record.kind == "whole":
            estimates = Whole(estimates)
    elif record.kind == "rest":
        estimates = Rest(bool(record.number("at_rest")), record.number("due"))
    elif record.kind == "ask":
        estimates = Ask()
    elif record.kind == "findings":
        estimates = _findings(record, classes)
    else:
        raise NOT_OURS
    return epoch, estimates


def parse_report(value: bytes | None, classes: int) -> Rest | Findings | None:
    """Return what an instance reports in a record of estimates; None if the record is no report.

    >>> parse_report(encode_estimates(3, Rest(True, 0)), classes=2)
    Rest(is_at_rest=True, due=0)
    """
    try:
        if Columns(value).kind not in ("rest", "findings"):
            return None
        report = parse_estimates(value, classes)[1]
    except BadRecord:
        return None
    return report if isinstance(report, Rest | Findings) else None


def are_places(numbers: NDArray[Any], size: int) -> bool:
    """Whether all of these numbers are places in a list of this size.

    >>> are_places(np.array([0, 2]), 3), are_places(np.array([-1]), 3)
    (True, False)
    """
    return bool(((numbers >= 0) & (numbers < size)).all())


def _encode_findings(fields: dict[str, object], found: Findings) -> bytes:
    used = np.flatnonzero(found.candidates.any(axis=1))
    fields |= {"gold": found.gold, "wrong": found.wrong, "rows": len(used)}
    tasks, every, golds, known = found.shares
    numbers = np.array([found.dependence, found.expected, tasks, golds])
    columns = numbers, every, known, used.astype("<i4"), found.candidates[used]
    return encode_columns("findings", fields, columns)


def _findings(record: Columns, classes: int) -> Findings:
    dependence, expected, tasks, golds = record.column("<f8", 4).tolist()
    every, known = record.column("<f8", 2, classes), record.column("<f8", 4, classes)
    used = record.column("<i4", record.number("rows"))
    if len(used) and not 0 <= used.min() <= used.max() < CANDIDATE_ROWS:
        raise NOT_OURS
    candidates = np.zeros((CANDIDATE_ROWS, CANDIDATE_COLUMNS))
    candidates[used] = record.column("<f8", len(used), CANDIDATE_COLUMNS)
    shares = Moments(tasks, every, golds, known)
    gold, wrong = record.number("gold"), record.number("wrong")
    return Findings(dependence, gold, wrong, expected, shares, candidates)


def _add_numbered(fields: dict[str, object], rows: Numbered) -> NDArray[np.int32]:
    """Add the names to the fields; return the column of numbers."""
    fields |= {"rows": len(rows.numbers), "first": rows.first, "names": rows.names}
    return rows.numbers.astype("<i4")


def _numbered(record: Columns) -> Numbered:
    return Numbered(
        record.number("first"), record.names("names"), record.column("<i4", record.number("rows"))
    )


def _as_column(sums: Sums) -> Floats:
    return np.concatenate(sums)
