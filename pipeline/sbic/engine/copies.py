"""Copies: pairs of workers who give nearly the same answers share a vote.

A task is contested if its labels differ. Of a pair of workers, `both` counts the contested tasks
that both have answered, `same` those on which they agree: from labels, not from beliefs. They are
copies if they agree on more than 95 % of at least 50, and share

    w = min((same / both - 0.95) / 0.05, 1)            c = 1 / (1 + Σ w of the others on the task)

Each engine counts over its own tasks, and both counts are sums over engines. No engine can know
the sums of all pairs, of which a large crowd has too many. So each names the pairs for which

    both > 50 s / 2 + 10 (both - same)                 s: its share of the tasks

and every engine tells its counts of the pairs that any has named. No copies are missed: summed over
engines, both ≥ 50 and both > 20 (both - same) give Σ both > Σ (50 s / 2 + 10 (both - same)), so
the inequality holds for one engine at least. All engines name at most `MOST_PAIRS` together, those
first for which it holds by the most.

Of workers who are said to err together, kin, less is asked: w = (same / both - 0.7) / 0.3.
Every engine tells its counts of all pairs of kin, of which there may be half as many.

Each engine also names, for each worker, the one of those with enough in common whose errors go
together most: with P of now, `alike` is the expected number of common tasks on which both give the
same wrong answer, `either` of those on which one of them is wrong. This is reported; no vote
depends on it.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sbic.engine.compiled import kernel
from sbic.engine.formulas import vote_share
from sbic.engine.labels import Floats, Ints
from sbic.engine.ledger import answer_of, find, task_of
from sbic.engine.state import (
    ANSWER,
    BELIEF,
    CHANGED,
    CHUNK,
    COPIES,
    FIRST,
    IS_HERE,
    LABELS,
    NEWEST,
    NEXT,
    NONE,
    OLDER,
    PAIR_LABEL,
    PAIR_WORKER,
    WHO,
    WORKER_IS_HERE,
    Ints32,
    State,
)
from sbic.engine.update import tell_one

ALIKE, COMMON = 0.95, 50  # copies agree on more than this share of so many contested tasks
KIN_ALIKE = 0.7  # the same of kin: what the owner says needs less evidence, but not none
MOST_PAIRS = 10_000
MOST_KIN = 101  # workers in a group: of more there would be too many pairs
DIFFERENT = 10  # common tasks that one on which a pair differs counts for, when pairs are named


class Copies(NamedTuple):
    """Pairs of workers, each in both orders, sorted by the first; and the vote that they share."""

    first: Ints
    second: Ints
    shared: Floats


class Pairs(NamedTuple):
    """Pairs of workers, `first` < `second`; of contested tasks, `both`, `same`, `alike`, `either`.

    `named` are those whose counts every other engine should tell, too.
    """

    first: Ints
    second: Ints
    both: Ints
    same: Ints
    alike: Floats
    either: Floats
    named: NDArray[np.bool_]

    @property
    def keys(self) -> Ints:
        """A number for each pair."""
        return (self.first << 32) | self.second

    def only(self, which: NDArray[np.bool_] | Ints) -> "Pairs":
        """Return some of the pairs."""
        first, second, both, same, alike, either, named = self
        counts = both[which], same[which], alike[which], either[which]
        return Pairs(first[which], second[which], *counts, named[which])


NOTHING = np.zeros(0, np.int64)
NO_PAIRS = Pairs(
    NOTHING, NOTHING, NOTHING, NOTHING, np.zeros(0), np.zeros(0), np.zeros(0, np.bool_)
)


def summed(parts: list[Pairs], kin: Ints = NOTHING) -> Pairs:
    """Return the counts of each pair that an engine names, or of `kin`, summed over all.

    >>> counts = np.array([[1, 2], [3, 3], [9, 4], [8, 4]])
    >>> one = Pairs(*counts, np.array([0.5, 0]), np.array([1.5, 2]), np.array([True, False]))
    >>> [column.tolist() for column in summed([one, one.only([0])])]
    [[1], [3], [18], [16], [1.0], [3.0], [True]]
    """
    keys, place = np.unique(np.concatenate([part.keys for part in parts]), return_inverse=True)
    both, same = np.zeros(len(keys), np.int64), np.zeros(len(keys), np.int64)
    alike, either = np.zeros(len(keys)), np.zeros(len(keys))
    named = np.zeros(len(keys), np.bool_)
    end = 0
    for part in parts:
        some = place[end : end + len(part.first)]
        end += len(some)
        both[some] += part.both
        same[some] += part.same
        alike[some] += part.alike
        either[some] += part.either
        named[some] |= part.named
    total = Pairs(keys >> 32, keys & 0xFFFFFFFF, both, same, alike, either, named)
    return total.only(named | np.isin(total.keys, kin))  # of others only some engines tell still


def shared_by(pairs: Pairs, kin: Ints) -> Floats:
    """Get the vote that each pair shares if they have enough in common; 0 if they are no copies."""
    agreement = pairs.same / np.maximum(pairs.both, 1)
    alike = np.where(np.isin(pairs.keys, kin), KIN_ALIKE, ALIKE)
    found: Floats = np.clip((agreement - alike) / (1 - alike), 0, 1)
    return found


def most_kin(groups: Ints) -> int:
    """Return the largest size of groups that are acted on: up to it there are few enough pairs.

    `groups` is how many groups have 0, 1, 2, ... members.

    >>> most_kin(np.array([0, 5, 3])), most_kin(np.array([0, 0, 4_000, 2_000]))
    (101, 2)
    """
    sizes = np.arange(MOST_KIN + 1)
    number = np.zeros(MOST_KIN + 1, np.int64)
    number[: len(groups)] = groups[: MOST_KIN + 1]
    pairs = np.cumsum(number * sizes * (sizes - 1) // 2)
    return int(np.searchsorted(pairs, MOST_PAIRS // 2, "right")) - 1


def pairs_within(groups: Ints) -> Ints:
    """Return the keys of all pairs of workers in the same group; -1 is none.

    >>> [(key >> 32, key & 0xFFFFFFFF) for key in pairs_within(np.array([7, -1, 7, 3])).tolist()]
    [(0, 2)]
    """
    sizes = np.bincount(groups[groups >= 0]) if len(groups) else NOTHING
    workers = np.flatnonzero(groups >= 0)
    workers = workers[sizes[groups[workers]] <= most_kin(np.bincount(sizes))]
    workers = workers[np.argsort(groups[workers], kind="stable")]
    _, starts = np.unique(groups[workers], return_index=True)
    found = [NOTHING]
    for members in np.split(workers, starts[1:]):
        first, second = np.triu_indices(len(members), 1)
        found.append((members[first] << 32) | members[second])
    return np.unique(np.concatenate(found))


def copies_among(pairs: Pairs, common: int, kin: Ints = NOTHING) -> Copies:
    """Return the pairs who share a vote."""
    shared = np.where(pairs.both >= common, shared_by(pairs, kin), 0.0)
    some = pairs.only(shared > 0)
    first = np.concatenate((some.first, some.second))
    second = np.concatenate((some.second, some.first))
    order = np.lexsort((second, first))
    return Copies(first[order], second[order], np.tile(shared[shared > 0], 2)[order])


def changed_workers(before: Copies, after: Copies, tolerance: float) -> Ints:
    """Return the workers who share votes with others than before, or otherwise."""
    was = (before.first << 32) | before.second
    now = (after.first << 32) | after.second
    keys = np.union1d(was, now)
    far = np.zeros(len(keys))
    far[np.searchsorted(keys, now)] += after.shared
    far[np.searchsorted(keys, was)] -= before.shared
    return np.unique(keys[np.abs(far) > tolerance] >> 32)


class Closest(NamedTuple):
    """Pairs in both orders, sorted by the first; whose errors go together most come first.

    `agreement` is the share of common contested tasks on which they agree, `alike` that of the
    tasks on which one of them is wrong on which both are, in the same way; `shared` as in `Copies`.
    """

    first: Ints
    second: Ints
    both: Ints
    agreement: Floats
    alike: Floats
    shared: Floats


def closest_among(pairs: Pairs, common: int, kin: Ints = NOTHING) -> Closest:
    """Return the pairs who have enough in common."""
    some = pairs.only(pairs.both >= common)
    first = np.concatenate((some.first, some.second))
    second = np.concatenate((some.second, some.first))
    alike = np.tile(some.alike / np.maximum(some.either, 1.0), 2)
    both, shared = np.tile(some.both, 2), np.tile(shared_by(some, kin), 2)
    agreement = np.tile(some.same / np.maximum(some.both, 1), 2)
    order = np.lexsort((second, -alike, -shared, first))
    columns = agreement[order], alike[order], shared[order]
    return Closest(first[order], second[order], both[order], *columns)


# Counting, some labels at a time: all the others that one worker meets, then the next worker.

MET, FOUND = range(2)  # in `at`
BOTH, SAME, WRONG_ALIKE, EITHER = range(4)  # in `counts`, and from COUNTS on in a row
ONE, OTHER, COUNTS, NAMED, ROW = 0, 1, 2, 6, 7  # in a row: the columns of `Pairs`
FEW = 5.0  # errors, added so that a few do not make a pair the closest


class PairTable(NamedTuple):
    """What is counted of the current worker, by the number of the other; and the pairs so far."""

    counts: Floats
    met: Ints32  # the others, in the order in which the current worker met them
    rows: Floats
    closest: Floats  # the row of the current worker's closest; ONE is NONE if there is none
    asked: Ints  # keys of pairs that others have named, sorted
    at: Ints


class Tally:
    """Counts pairs on own tasks in steps, and adds what other engines tell of theirs."""

    def __init__(self, common: int = COMMON) -> None:
        self.common = common
        self.share = 1.0
        self.kin = NOTHING  # keys of pairs, sorted
        self.own = NO_PAIRS  # as last counted
        self.others: list[Pairs] = []
        self.known = NO_PAIRS  # of all engines
        self.copies = Copies(NOTHING, NOTHING, np.zeros(0))
        self.closest = closest_among(NO_PAIRS, common)
        self.moved = NOTHING  # workers whose pairs are others than before
        self.counted = 0  # changes of labels when the last count began
        self.is_asked = False  # others have named pairs that are not in `own`
        self.has_news = False
        self._asked = NOTHING  # when the last count began
        self._table = _empty_table(0, NOTHING)

    def is_due(self, state: State, tolerance: float, labels: int) -> bool:
        """Whether more than a share of the labels have come or gone since the last count."""
        return self.is_asked or bool(state.whole[CHANGED] - self.counted > tolerance * labels)

    def hear(self, others: list[Pairs], share: float) -> None:
        """Take the parts of the other engines, and this engine's share of the tasks."""
        self.others = others
        self.is_asked |= share != self.share or not np.isin(self._named(), self._asked).all()
        self.share = share
        self._add_up()

    def relate(self, kin: Ints) -> None:
        """Take the keys of all pairs who are said to err together, sorted."""
        if not np.array_equal(kin, self.kin):
            self.kin = kin
            self.is_asked |= not np.isin(kin, self._asked).all()
            self._add_up()

    def proceed(self, state: State, labels: int) -> bool:
        """Go on counting about this many labels; True when it is complete."""
        whole = state.whole
        if whole[PAIR_WORKER] == NONE:
            whole[PAIR_WORKER], whole[PAIR_LABEL] = 0, state.worker_link[0, NEWEST]
            self.counted, self.is_asked = int(whole[CHANGED]), False
            self._asked = self._named()
            self._table = _empty_table(len(state.worker), self._asked)
        least = self.common * self.share
        if not continue_tally(state, labels, least, *self._table):
            if self._table.at[FOUND] == len(self._table.rows):
                self._keep(self._found())
            return False
        whole[PAIR_WORKER] = whole[PAIR_LABEL] = NONE
        found, self._table = self._best(self._found()), _empty_table(0, NOTHING)
        self.has_news |= not all(map(np.array_equal, found, self.own))
        self.own = found
        self._add_up()
        return True

    def take(self) -> Pairs:
        """Return the own part, for the other engines."""
        self.has_news = False
        return self.own

    def take_moved(self) -> Ints:
        """Remove and return the workers whose pairs are others than before."""
        moved, self.moved = self.moved, NOTHING
        return moved

    def _named(self) -> Ints:
        named = [part.keys[part.named] for part in self.others]
        return np.unique(np.concatenate([self.kin, *named]))

    def _add_up(self) -> None:
        before, self.known = self.known, summed([self.own, *self.others], self.kin)
        self.closest = closest_among(self.known, self.common, self.kin)
        if not all(map(np.array_equal, before, self.known)):
            self.moved = np.unique(np.concatenate([self.moved, *before[:2], *self.known[:2]]))

    def _found(self) -> Pairs:
        """Return the pairs in the table, each once: the closest may be there already."""
        columns = np.ascontiguousarray(self._table.rows[: self._table.at[FOUND]].T)
        first, second, both, same = columns[:4].astype(np.int64)
        alike, either, named = columns[4:]
        found = Pairs(first, second, both, same, alike, either, named > 0)
        _, places = np.unique(found.keys * 2 + 1 - found.named, return_index=True)
        found = found.only(places)  # of two, the named one comes first
        _, places = np.unique(found.keys, return_index=True)
        return found.only(places)

    def _best(self, found: Pairs) -> Pairs:
        """As many named pairs as this engine may name, and all that it was asked about."""
        most = max(1, int(MOST_PAIRS * self.share))
        if found.named.sum() <= most:
            return found
        score = np.where(found.named, found.both - DIFFERENT * (found.both - found.same), -np.inf)
        is_best = np.zeros(len(score), np.bool_)
        is_best[np.argsort(-score, kind="stable")[:most]] = True
        is_asked = np.isin(found.keys, self._table.asked)
        named = found.named & is_best
        return found._replace(named=named).only(named | is_asked)

    def _keep(self, found: Pairs) -> None:
        best, table = self._best(found), self._table
        table.at[FOUND] = len(best.first)
        table.rows[: len(best.first)] = np.stack(best, axis=1)


def _empty_table(workers: int, asked: Ints) -> PairTable:
    room = 4 * MOST_PAIRS + len(asked) if workers else 0
    return PairTable(
        counts=np.zeros((workers, 4)),
        met=np.zeros(workers, np.int32),
        rows=np.zeros((room, ROW)),
        closest=np.full(ROW, float(NONE)),
        asked=asked,
        at=np.zeros(2, np.int64),
    )


@kernel
def continue_tally(
    state: State,
    labels: int,
    least: float,
    counts: Floats,
    met: Ints32,
    rows: Floats,
    closest: Floats,
    asked: Ints,
    at: Ints,
) -> bool:
    """Go on, about this many labels; True when complete, False also if `rows` is full."""
    whole, seen = state.whole, 0
    while seen < labels:
        j, label = whole[PAIR_WORKER], whole[PAIR_LABEL]
        if label != NONE:
            seen += _meet(state, j, label, counts, met, at)
            whole[PAIR_LABEL] = state.label[label, OLDER]
            continue
        while at[MET] > 0 and at[FOUND] < len(rows):
            at[MET] -= 1
            _part(j, met[at[MET]], least, counts, rows, closest, asked, at)
        if at[FOUND] == len(rows):
            return False
        if closest[ONE] != NONE:
            for column in range(ROW):
                rows[at[FOUND], column] = closest[column]
            at[FOUND] += 1
            closest[ONE] = NONE
        j += 1
        if j == len(counts):
            return True
        seen += 1
        whole[PAIR_WORKER] = j
        whole[PAIR_LABEL] = state.worker_link[j, NEWEST]
    return False


@kernel
def _meet(state: State, j: int, label: int, counts: Floats, met: Ints32, at: Ints) -> int:
    """Count the other labels on a contested own task; return how many labels were read."""
    i, x = task_of(state, label), answer_of(state, label)
    if not state.task[i, IS_HERE]:
        return 1
    chunk, left, is_contested = state.task[i, FIRST], state.task[i, LABELS], False
    while left > 0 and not is_contested:
        for place in range(min(left, CHUNK)):
            is_contested |= state.answer[chunk, ANSWER + place] != x
        left -= CHUNK
        chunk = state.chunk[chunk, NEXT]
    chunk, left = state.task[i, FIRST], state.task[i, LABELS] if is_contested else 0
    wrong = 1 - state.belief[i, BELIEF + x]
    while left > 0:
        for place in range(min(left, CHUNK)):
            other, y = state.chunk[chunk, WHO + place], state.answer[chunk, ANSWER + place]
            if other == j or other >= len(counts):
                continue
            if counts[other, BOTH] == 0:
                met[at[MET]] = other
                at[MET] += 1
            counts[other, BOTH] += 1
            if y == x:
                counts[other, SAME] += 1
                counts[other, WRONG_ALIKE] += wrong
                counts[other, EITHER] += wrong
            else:  # at least one of them is wrong
                counts[other, EITHER] += 1
        left -= CHUNK
        chunk = state.chunk[chunk, NEXT]
    return int(state.task[i, LABELS])


@kernel
def _part(
    j: int,
    other: int,
    least: float,
    counts: Floats,
    rows: Floats,
    closest: Floats,
    asked: Ints,
    at: Ints,
) -> None:
    """Add the pair to the rows if it is named or asked about; begin to count anew."""
    both, same = counts[other, BOTH], counts[other, SAME]
    is_named = both > least / 2 + DIFFERENT * (both - same)
    if other > j and (is_named or _is_in(asked, (j << 32) | other)):
        _write(rows[at[FOUND]], j, other, counts, is_named)
        at[FOUND] += 1
    wrong, either = counts[other, WRONG_ALIKE], counts[other, EITHER] + FEW
    before, out_of = closest[COUNTS + WRONG_ALIKE], closest[COUNTS + EITHER] + FEW
    if both >= least and (closest[ONE] == NONE or wrong * out_of > before * either):
        _write(closest, j, other, counts, True)
    for number in range(4):
        counts[other, number] = 0.0


@kernel
def _write(row: Floats, j: int, other: int, counts: Floats, is_named: bool) -> None:
    row[ONE], row[OTHER], row[NAMED] = min(j, other), max(j, other), is_named
    for number in range(4):
        row[COUNTS + number] = counts[other, number]


@kernel
def _is_in(keys: Ints, key: int) -> bool:
    """Whether a number is among these, which are sorted."""
    low, high = 0, len(keys)
    while low < high:
        middle = (low + high) // 2
        if keys[middle] < key:
            low = middle + 1
        else:
            high = middle
    return low < len(keys) and keys[low] == key


# The shares of votes, which the engine of a worker needs and only that of the task knows.


@kernel
def list_shares(state: State, tasks: Ints, places: Ints, workers: Ints, shares: Floats) -> int:
    """Write the shares of the labels on own tasks by copies counted elsewhere; their number.

    `places` are those of the tasks among `tasks`.
    """
    found = 0
    for t in range(len(tasks)):
        i = tasks[t]
        chunk, left = state.task[i, FIRST], state.task[i, LABELS]
        while left > 0:
            for place in range(min(left, CHUNK)):
                j = state.chunk[chunk, WHO + place]
                if state.worker_link[j, COPIES] and not state.worker[j, WORKER_IS_HERE]:
                    places[found], workers[found] = t, j
                    shares[found] = vote_share(state, i, j)
                    found += 1
            left -= CHUNK
            chunk = state.chunk[chunk, NEXT]
    return found


@kernel
def receive_shares(state: State, tasks: Ints, workers: Ints, shares: Floats) -> None:
    """Set the shares of labels of own workers on tasks of other engines."""
    for t in range(len(tasks)):
        label = find(state, tasks[t], workers[t])
        if label != NONE and not state.task[tasks[t], IS_HERE]:
            state.share[label] = shares[t]
            if state.worker[workers[t], WORKER_IS_HERE]:
                tell_one(state, label)
