"""The owner of workers: labels in, votes out; decides which labels stand."""

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from time import time_ns
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sbic.classes import RETRACT, SKIP
from sbic.engine.labels import Floats, Ints
from sbic.engine.state import WorkerCounts
from sbic.engine.taking import ABSENT, REPEATED
from sbic.infer.intervals import accuracy_intervals, contradicts, wilson
from sbic.instance.crowd import Crowd, Rows, by_home, rows_of
from sbic.instance.names import RecentNames
from sbic.instance.taken import (
    OUTCOMES,
    CountedOffsets,
    Forwarded,
    Outcome,
    R,
    Rejected,
    Taken,
    TakenLabel,
    TakenVotes,
)
from sbic.wire.bad import ID_MAX_BYTES, BadRecord
from sbic.wire.changelogs import Answers, Piece, VotesFor, parse_answers
from sbic.wire.columns import Columns
from sbic.wire.dead_letters import content_mark
from sbic.wire.labels import CodedLabel, label_parser
from sbic.wire.seal import Seal
from sbic.wire.votes import (
    NOBODY,
    NOTHING,
    REPEAT,
    Votes,
    VotesReader,
    counts_width,
    encode_votes,
)
from sbic.wire.workers import AgreesWith, Worker, encode_worker

# A crash can have prevented the publication of workers this recent: their records are published up
# to 10 s after the answers, and the broker may have been unavailable before that.
RECENT_NS = 30_000_000_000
LAST_GROUPS = 2  # votes are published together with the answers of the next group
MARKS = 50_000  # of forwarded labels: more than arrive before a crash forwards them again


class WorkerPartition:
    """Which labels of a partition have been taken: `taken` is the offset of the last.

    `last` has the last restored records: only their votes can be missing on the votes topic after a
    crash. `marks` are those of labels recently forwarded here.
    """

    def __init__(self) -> None:
        self.taken = -1
        self.offsets = CountedOffsets()
        self.marks: dict[int, None] = {}
        self.is_ready = False
        self.last: deque[list[Answers]] = deque(maxlen=LAST_GROUPS)
        self.is_continued = False
        self.restored = RecentNames(RECENT_NS)  # workers

    @property
    def last_answers(self) -> list[Answers]:
        """The records of the last groups."""
        return [answers for group in self.last for answers in group]

    def restoring(self, answers: Answers) -> None:
        """Add a restored record of answers."""
        if not self.is_continued:
            self.last.append([])
        self.last[-1].append(answers)
        self.is_continued = answers.more
        for mark in answers.marks:
            self.is_marked(mark)
        self.taken = max(self.taken, answers.upto)

    def is_marked(self, mark: int) -> bool:
        """Whether a label was forwarded before; add its mark if not."""
        if mark in self.marks:
            return True
        self.marks[mark] = None
        if len(self.marks) > MARKS:
            del self.marks[next(iter(self.marks))]
        return False


LABELS_AT_ONCE = 1000  # of a partition
RECORD_BYTES = 900_000  # of their answers at most, with ids of maximal length


class WorkerStage:
    """Takes labels in order, each once, into the engine."""

    def __init__(
        self, crowd: Crowd, seal: Seal, repeats: Literal["first", "last"] = "first"
    ) -> None:
        self.crowd = crowd
        self.seal = seal
        self.parse = label_parser(crowd.classes)
        self.replaces = repeats == "last"
        row = 2 * ID_MAX_BYTES + 40 + 8 * counts_width(len(crowd.classes))
        self.labels_at_once = min(LABELS_AT_ONCE, RECORD_BYTES // row)
        self.partitions: dict[int, WorkerPartition] = {}

    @property
    def workers(self) -> int:
        """How many workers this instance owns."""
        return int(
            self.crowd.has_workers_of[self.crowd.worker.home[: len(self.crowd.workers)]].sum()
        )

    def open(self, partition: int) -> None:
        """Acquire a partition, which has to be restored next."""
        self.partitions[partition] = WorkerPartition()
        self.crowd.open_workers(partition)

    def close(self, partition: int) -> None:
        """Release a partition."""
        if self.partitions.pop(partition, None) is not None:
            self.crowd.close_workers(partition)

    def ready(self, partition: int) -> None:
        """Complete the restoration of a partition: from now on its labels are weighed here."""
        state = self.partitions[partition]
        if not state.is_ready:
            state.is_ready = True
            self.crowd.restores[partition] = False
            self.crowd.count_workers(partition)
        self.crowd.taken_before[partition] = state.taken

    def restore(self, partition: int, values: Sequence[bytes | None]) -> None:
        """Apply records of the answers topic.

        Labels may be in it twice: an instance that was stalled may continue for a moment after
        another has acquired its partitions. The first occurrence counts.
        """
        state, reader = self.partitions[partition], VotesReader(len(self.crowd.classes))
        records = list(map(parse_answers, values))
        parts = [
            (place, part) for place, answers in enumerate(records) for _, part in answers.votes
        ]
        for _, part in parts:
            reader.add(Columns(part))
        votes = reader.read()
        new = state.offsets.add(votes.offsets)
        by_vote = votes.by_vote(np.array([place for place, _ in parts], np.int64))
        have_new = set(by_vote[new].tolist())
        for place, answers in enumerate(records):
            if answers.upto > state.taken or place in have_new:
                state.restoring(answers)
                self._restore_drift(answers)
        times = [answers.pieces[-1].time for answers in records]
        ends = np.searchsorted(by_vote, np.arange(len(records)), "right")
        state.restored.add(times, ends, votes.workers)
        if new.any():
            rows = rows_of(votes, self.crowd.number_tasks, self.crowd.number_workers)
            self._put(partition, rows.only(new), votes.votes[new])

    def _restore_drift(self, answers: Answers) -> None:
        """Restore which workers drift; whether others do is judged from the next labels on."""
        for name, since in (answers.drifting or {}).items():
            [worker] = self.crowd.number_workers([name]).tolist()
            self.crowd.engine.set_drifting(worker, since)

    def _put(self, partition: int, rows: Rows, votes: Floats) -> None:
        crowd = self.crowd
        crowd.restores[partition] &= crowd.has_tasks_of  # not counted for tasks of other instances
        np.maximum.at(crowd.worker.last_seen, rows.workers, rows.timestamps)
        skips = rows.answers == SKIP
        if skips.any():
            self._skip(rows.only(skips))
        labels = rows.answers >= RETRACT
        some = rows.only(labels)
        crowd.engine.put(some.tasks, some.workers, some.answers, votes[labels], defers=True)
        crowd.counted(rows.only(~is_for_nobody(rows.answers)))

    def _skip(self, rows: Rows) -> None:
        for worker, task in zip(rows.workers.tolist(), rows.tasks.tolist(), strict=True):
            self.crowd.skip(worker, task)

    def take(self, parts: Mapping[int, Sequence[R]], taken: Taken[R]) -> Rows | None:
        """Turn labels, by partition, into votes; add the results to `taken`.

        Returns the labels that count.
        """
        for partition, records in parts.items():
            taken.begin(partition, len(records), self.labels_at_once)
        rows = self._parse(parts, taken)
        if rows is not None:
            votes = self._take(rows, taken)
            for record in self._by_home(rows, votes):
                taken.answers[record.source][-1].votes.append(VotesFor(record.home, record.value))
                taken.votes.append(record)
            taken.workers.append(rows.workers)
            nothing = rows.answers == NOTHING
            rows = rows.only(~nothing) if nothing.any() else rows
        taken.outcomes[Outcome.REJECTED] = len(taken.rejected)
        taken.outcomes[Outcome.FORWARDED] = len(taken.forwarded)
        for partition, records in parts.items():
            state = self.partitions[partition]
            state.offsets.add(np.array([record.offset for record in records], np.int64))
            state.taken = max(state.taken, records[-1].offset)
            taken.answers[partition][-1].pieces.append(Piece(time_ns(), state.taken))
        return rows

    def _parse(self, parts: Mapping[int, Sequence[R]], taken: Taken[R]) -> Rows | None:
        """Return the valid labels that were not taken before a crash or rebalance."""
        parse = self.parse
        found: list[CodedLabel] = []
        good: list[R] = []
        sources: list[int] = []
        for partition, records in parts.items():
            after, counted = self.partitions[partition].taken, self.partitions[partition].offsets
            for record in records:
                if record.offset > after or record.offset not in counted:
                    try:
                        found.append(parse(record.value))
                        good.append(record)
                    except BadRecord as bad:
                        taken.rejected.append(Rejected(record, bad))
                else:
                    taken.outcomes[Outcome.FENCED] += 1
            sources += [partition] * (len(good) - len(sources))
        if not found:
            return None
        tasks, names, answers = zip(*found, strict=True)
        crowd = self.crowd
        workers = crowd.number_workers(names)
        homes = crowd.worker.home[workers]
        rows = Rows(
            crowd.number_tasks(tasks),
            workers,
            np.array(answers, np.int64),
            np.array([record.offset for record in good], np.int64),
            np.array([record.timestamp for record in good], np.int64),
            np.array(sources, np.int64),
        )
        is_here = homes == rows.sources
        if self.replaces:
            self._leave_out_forwarded_again(good, rows, is_here, taken)
        if is_here.all():
            return rows
        for place in np.flatnonzero(~is_here).tolist():
            taken.forwarded.append(Forwarded(good[place], names[place], int(homes[place])))
        return rows.only(is_here)

    def _leave_out_forwarded_again(
        self, records: list[R], rows: Rows, is_here: NDArray[np.bool_], taken: Taken[R]
    ) -> None:
        """Turn labels that were forwarded twice because of a crash into NOTHING.

        The second would otherwise replace what the worker has answered in between.
        """
        for place, record in enumerate(records):
            if record.headers and is_here[place]:
                origin = self.seal.origin(record, self.crowd.partitions)
                if origin is None:
                    continue
                mark = content_mark(origin, record.value)
                partition = int(rows.sources[place])
                if self.partitions[partition].is_marked(mark):
                    rows.answers[place] = NOTHING
                    taken.outcomes[Outcome.REPEATED] += 1
                else:
                    taken.answers[partition][-1].marks.append(mark)

    def _take(self, rows: Rows, taken: Taken[R]) -> Floats:
        """Take labels into the engine; return their votes, and mark rows that change nothing."""
        crowd = self.crowd
        np.maximum.at(crowd.worker.last_seen, rows.workers, rows.timestamps)
        votes = np.zeros(len(rows.tasks))
        is_label = ~is_for_nobody(rows.answers)
        labels = rows if is_label.all() else rows.only(is_label)
        drifted = crowd.engine.drifting(labels.workers)
        columns = labels.tasks, labels.workers, labels.answers
        outcomes, given = crowd.engine.take(
            *columns, replaces=self.replaces, times=np.maximum(labels.timestamps, 1)
        )
        changed = labels.workers[drifted != crowd.engine.drifting(labels.workers)]
        if len(changed):
            self._note_drift(np.unique(changed), taken)
        for outcome, number in enumerate(np.bincount(outcomes, minlength=len(OUTCOMES)).tolist()):
            taken.outcomes[OUTCOMES[outcome]] += number
        labels.answers[outcomes == REPEATED] = REPEAT
        labels.answers[outcomes == ABSENT] = NOTHING
        rows.answers[is_label] = labels.answers
        votes[is_label] = given
        if len(labels.tasks) < len(rows.tasks):
            skips = rows.only(rows.answers == SKIP)
            taken.outcomes[Outcome.SKIPPED] += len(skips.tasks)
            self._skip(skips)
        for_nobody = is_for_nobody(rows.answers)
        votes[for_nobody] = 0.0
        crowd.counted(rows.only(~for_nobody) if for_nobody.any() else rows)
        return votes

    def _note_drift(self, workers: Ints, taken: Taken[R]) -> None:
        """Write since when these workers drift, or that they no longer do, with their answers."""
        since = self.crowd.engine.drifting(workers).tolist()
        homes = self.crowd.worker.home[workers].tolist()
        for worker, home, time in zip(workers.tolist(), homes, since, strict=True):
            record = taken.answers[home][-1]
            assert record.drifting is not None  # `Taken.begin` makes it so
            record.drifting[self.crowd.workers.names[worker]] = time

    def _by_home(self, rows: Rows, votes: Floats) -> Iterator[TakenVotes]:
        """Yield a record of votes from each partition to each of tasks; skips are for NOBODY.

        They come in the order of these two.
        """
        crowd = self.crowd
        homes = np.where(is_for_nobody(rows.answers), NOBODY, crowd.task.home[rows.tasks])
        for number, some in by_home(rows.sources * (1 + crowd.partitions) + homes - NOBODY):
            source, home = divmod(number, 1 + crowd.partitions)
            home += NOBODY
            part = rows.only(some)
            width = counts_width(len(crowd.classes)) if self._needs_counts(home) else 0
            counts = crowd.engine.counts(part.workers) if width else np.empty((len(some), 0))
            record = Votes(
                source,
                crowd.tasks.names_of(part.tasks),
                crowd.workers.names_of(part.workers),
                part.answers.astype("<i2"),
                part.offsets,
                part.timestamps,
                votes[some],
                counts,
            )
            yield TakenVotes(source, home, encode_votes(record), part.offsets)

    def _needs_counts(self, home: int) -> bool:
        """Whether votes need the workers' counts: another instance owns the tasks."""
        is_elsewhere = home != NOBODY and not self.crowd.has_tasks_of[home]
        return self.crowd.engine.is_settled and is_elsewhere

    def labels_of(self, rows: Rows) -> list[TakenLabel]:
        """Return the labels in these rows, in the order of their offsets."""
        tasks, workers = self.crowd.tasks.names, self.crowd.workers.names
        columns = (column.tolist() for column in rows)
        return [
            TakenLabel(tasks[i], workers[j], answer, offset, timestamp)
            for i, j, answer, offset, timestamp, _ in zip(*columns, strict=True)
        ]


def is_for_nobody(answers: Ints) -> NDArray[np.bool_]:
    """Which of these answers are sent to no task."""
    found: NDArray[np.bool_] = (answers == SKIP) | (answers == NOTHING)
    return found


MOST_CONFUSED = 20  # classes: the confusion of more would not fit into a record


class WorkerRecord(NamedTuple):
    """A record for the workers topic."""

    partition: int
    key: bytes
    value: bytes


MOST_CLOSEST = 3  # other workers in a worker's record


def agrees_with(crowd: Crowd, workers: Ints) -> dict[int, list[AgreesWith]]:
    """By row, the others of each worker who share a vote, and whose errors go together most."""
    pairs, found = crowd.engine.tally.closest, {}
    starts, ends = (np.searchsorted(pairs.first, workers, side) for side in ("left", "right"))
    for row in np.flatnonzero(ends > starts).tolist():
        places = range(starts[row], min(ends[row], starts[row] + MOST_CLOSEST))
        found[row] = [
            AgreesWith(
                worker=crowd.workers.names[int(pairs.second[place])],
                tasks=int(pairs.both[place]),
                agreement=float(pairs.agreement[place]),
                errors_alike=float(pairs.alike[place]),
                shared=float(pairs.shared[place]),
            )
            for place in places
        ]
    return found


def intervals_of(crowd: Crowd, known: WorkerCounts) -> Floats:
    """Return the 95 % intervals of these workers' accuracies: lower ends, and upper ends."""
    return accuracy_intervals(known.given, known.accuracy, crowd.engine.prior_labels)


def encode_workers(crowd: Crowd, workers: Ints) -> Iterator[WorkerRecord]:
    """Yield the records of these workers."""
    if not len(workers):
        return
    known = crowd.engine.workers(workers)
    low, high = intervals_of(crowd, known)
    on_gold = crowd.engine.on_gold(workers)
    contradicted = contradicts(low, high, on_gold[:, 1], on_gold[:, 0]).tolist()
    closest = agrees_with(crowd, workers)
    drifting = crowd.engine.drifting(workers).tolist()
    homes = crowd.worker.home[workers].tolist()
    last_seen = crowd.worker.last_seen[workers].tolist()
    columns = (known.given, known.right, known.accuracy, low, high)
    numbers = zip(*(column.tolist() for column in columns), strict=True)
    for row, (given, correct, accuracy, least, most) in enumerate(numbers):
        name = crowd.workers.names[int(workers[row])]
        gold, gold_right = on_gold[row].tolist()
        record: Worker = {
            "worker": name,
            "accuracy": accuracy,
            "interval": [least, most],
            "labels": round(given),
            "correct": correct,
            "gold": gold,
            "gold_right": gold_right,
            "last_seen": last_seen[row],
        }
        if gold:
            record["gold_interval"] = list(wilson(gold_right, gold))
        if contradicted[row]:
            record["contradicted"] = True
        if known.theta is not None and known.habits is not None and known.confusion is not None:
            record["theta"] = float(known.theta[row])
            names = crowd.classes.names
            record["habits"] = dict(zip(names, known.habits[row].tolist(), strict=True))
            if len(names) <= MOST_CONFUSED:
                rows = known.confusion[row].tolist()
                record["confusion"] = {
                    name: dict(zip(names, some, strict=True))
                    for name, some in zip(names, rows, strict=True)
                }
        if drifting[row]:
            record["drifting"] = drifting[row]
        said = crowd.roster.of(homes[row], name)
        for field, value in said._asdict().items():
            if value is not None:
                record[field] = value  # type: ignore[literal-required]  # as in the roster
        if row in closest:
            record["agrees_with"] = closest[row]
        yield WorkerRecord(homes[row], name.encode(), encode_worker(record))
