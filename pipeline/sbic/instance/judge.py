"""Checks whether records between instances can be sbic's own, many at once."""

from math import log
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sbic.classes import SKIP
from sbic.engine.compiled import kernel
from sbic.engine.labels import Floats, Ints
from sbic.foreign import shown
from sbic.instance.crowd import Crowd
from sbic.wire.assignments import LABEL, MAX_COUNT, Assignment, place_of
from sbic.wire.bad import BadRecord, Reason, parser
from sbic.wire.changelogs import Answers, Facts
from sbic.wire.columns import MOST, NOT_OURS, ROUNDING, Columns, Names
from sbic.wire.partitions import homes_of
from sbic.wire.votes import NOBODY, NOTHING, ManyVotes, VotesReader


class Restored(NamedTuple):
    """How many records were processed, and which of them are not sbic records, by index."""

    records: int
    rejected: dict[int, BadRecord]


# Checks whether a record between instances can be one of sbic's own.
#
# Any client with write access can publish anything to a topic. Impossible records are refused:
# labels that do not exist, tasks and workers of another partition, numbers that no computation
# gives. A forged record that passes cannot be distinguished from a genuine one; access control
# prevents it.


PROBLEMS = (
    "",
    "the labels partition does not exist",
    "skips are mixed with votes for tasks",
    "a vote is larger than any label's can be",
    "a task belongs to another partition",
    "a worker belongs to another partition",
    "the votes are of labels that were not taken",
)
NO_PARTITION, MIXED, TOO_HEAVY, WRONG_TASK, WRONG_WORKER, NOT_TAKEN = range(1, 7)
BEYOND = 7


class Beyond(BadRecord):
    """A record with an offset beyond the known end of its partition."""

    def __init__(self, topic: str, partition: int, offset: int, end: int) -> None:
        problem = f"partition {partition} of {topic} ends at {end:,}, before offset {offset:,}"
        super().__init__(Reason.NOT_OURS, problem)


class Ends:
    """The known end offsets of the partitions that users write to."""

    def __init__(self, partitions: int, at: int = 0) -> None:
        self.labels = np.full(partitions, at, np.int64)
        self.tasks = np.full(partitions, at, np.int64)
        self.requests = np.full(partitions, at, np.int64)


class Judge:
    """Raises `BadRecord` for impossible records; `Beyond` if the known ends may be outdated."""

    def __init__(self, crowd: Crowd, ends: Ends) -> None:
        self.crowd = crowd
        self.ends = ends
        alpha, beta = crowd.engine.prior.alpha, crowd.engine.prior.beta
        # for a worker with the most labels possible; a replaced answer counts twice
        self.most_vote = 2 * log((MOST + alpha + beta) / min(alpha, beta))

    def problems_of(self, votes: ManyVotes, homes: Ints, before: Ints) -> dict[int, BadRecord]:
        """Which of these records are impossible, and why.

        Each is for its home partition of tasks, or NOBODY, and has labels before an offset.
        """
        codes = np.zeros(len(votes.lengths), np.int8)
        partitions = self.crowd.partitions
        _judge_each(
            votes.lengths,
            votes.sources,
            homes,
            before,
            votes.answers,
            votes.offsets,
            votes.votes,
            homes_of(votes.tasks, partitions),
            homes_of(votes.workers, partitions),
            self.ends.labels,
            self.most_vote,
            codes,
        )
        found = {
            record: self._problem(votes, record, int(codes[record]))
            for record in np.flatnonzero(codes).tolist()
        }
        for record in np.flatnonzero(~votes.are_well_formed(len(self.crowd.classes))).tolist():
            found[record] = NOT_OURS
        if len(votes.counts):
            rows = np.repeat(np.flatnonzero(votes.has_counts), votes.lengths[votes.has_counts])
            for record in rows[~_are_possible(votes.counts)].tolist():
                found.setdefault(record, NO_SUCH_COUNTS)
        return found

    def _problem(self, votes: ManyVotes, record: int, code: int) -> BadRecord:
        if code != BEYOND:
            return _not_ours(PROBLEMS[code])
        source, last = int(votes.sources[record]), int(votes.offsets[votes.ends[record] - 1])
        return Beyond("labels", source, last, int(self.ends.labels[source]))

    @parser
    def check_answers(self, partition: int, answers: Answers) -> None:
        """Check answers of a partition of workers, except for their votes."""
        if any(home >= self.crowd.partitions for home, _ in answers.votes):
            raise _not_ours("the votes are for a partition that does not exist")
        end = int(self.ends.labels[partition])
        if answers.upto >= end:
            raise Beyond("labels", partition, answers.upto, end)

    @parser
    def check_counts(self, counts: Floats) -> None:
        """Check rows of n, a and F of workers."""
        if not _are_possible(counts).all():
            raise NO_SUCH_COUNTS

    @parser
    def check_facts(self, partition: int, facts: Facts) -> None:
        """Check facts of a partition of tasks."""
        end = int(self.ends.tasks[partition])
        names = Names.of([fact.task for fact in facts.rows])
        if not self._are_of(partition, Names.joined([names, facts.recent])):
            raise _not_ours(f"a task does not belong to partition {partition}")
        last = max((fact.offset for fact in facts.rows), default=-1)
        if last >= end:
            raise Beyond("tasks", partition, last, end)

    @parser
    def check_assignment(self, partition: int, assignment: Assignment) -> None:
        """Check a record of a partition of assignments."""
        try:
            place = place_of(assignment.id)
        except ValueError:
            raise _not_ours(f"its id {shown(assignment.id)} names no request") from None
        ends = {"": self.ends.requests, LABEL: self.ends.labels}.get(place.source)
        if ends is None or place.partition not in range(self.crowd.partitions):
            raise _not_ours("its id names a partition that does not exist")
        if place.number not in range(MAX_COUNT) or place.offset < 0:
            raise _not_ours("its id names no request")
        if self.crowd.home_of(assignment.worker) != partition:
            raise _not_ours(f"a worker does not belong to partition {partition}")
        end = int(ends[place.partition])
        if place.offset >= end:
            raise Beyond(
                "labels" if place.source else "requests", place.partition, place.offset, end
            )

    def _are_of(self, partition: int, names: Names) -> bool:
        """Whether all names belong to a partition; hashing them is quicker than a lookup."""
        return bool((homes_of(names, self.crowd.partitions) == partition).all())


def _are_possible(counts: Floats) -> NDArray[np.bool_]:
    """For which workers n is the sum of F, and a is not larger."""
    given, right = counts[:, 0], counts[:, 1]
    slack = ROUNDING * (1 + given)
    possible: NDArray[np.bool_] = (right <= given + slack) & (
        np.abs(counts[:, 2:].sum(axis=1) - given) <= slack
    )
    return possible


@kernel
def _judge_each(
    lengths: Ints,
    sources: Ints,
    homes: Ints,
    before: Ints,
    answers: NDArray[np.int16],
    offsets: Ints,
    votes: Floats,
    task_homes: NDArray[np.int32],
    worker_homes: NDArray[np.int32],
    label_ends: Ints,
    most_vote: float,
    codes: NDArray[np.int8],
) -> None:
    """Write the code of the last problem found with each record, if any."""
    start = 0
    for record in range(len(lengths)):
        home, source = homes[record], sources[record]
        if source >= len(label_ends):
            codes[record] = NO_PARTITION
        end = start + lengths[record]
        for row in range(start, end):
            is_for_nobody = answers[row] == SKIP or answers[row] == NOTHING
            if is_for_nobody != (home == NOBODY):
                codes[record] = MIXED
            if abs(votes[row]) > most_vote:
                codes[record] = TOO_HEAVY
            if home != NOBODY and task_homes[row] != home:
                codes[record] = WRONG_TASK
            if worker_homes[row] != source:
                codes[record] = WRONG_WORKER
            if offsets[row] >= before[record]:
                codes[record] = NOT_TAKEN
        if codes[record] == 0 and end > start and offsets[end - 1] >= label_ends[source]:
            codes[record] = BEYOND
        start = end


def _not_ours(problem: str) -> BadRecord:
    return BadRecord(Reason.NOT_OURS, f"not an sbic record: {problem}")


NO_SUCH_COUNTS = _not_ours("the counts of a worker are impossible")


# Reads many records of votes at once, and leaves out impossible ones.


class Screened(NamedTuple):
    """The possible votes, the index of the record of each part, and the outcome."""

    votes: ManyVotes
    places: Ints
    outcome: Restored

    def has(self, place: int) -> bool:
        """Whether the record at this index was processed and accepted."""
        return place < self.outcome.records and place not in self.outcome.rejected


class Screening:
    """Collects records one by one; `problems` has those of bad records, by index."""

    def __init__(self, judge: Judge) -> None:
        self.problems: dict[int, BadRecord] = {}
        self._judge = judge
        self._reader = VotesReader(len(judge.crowd.classes))
        self._parts: list[tuple[int, int, int]] = []

    def add(self, place: int, home: int, record: Columns, before: int = MOST) -> None:
        """Add votes of labels before an offset, for a partition of tasks or NOBODY."""
        self._reader.add(record)
        self._parts.append((place, home, before))

    def finish(self, records: int, *, sure: bool) -> Screened:
        """Check all votes of so many records.

        Unless `sure` (the known ends of partitions are current), processing stops before the first
        record beyond an end.
        """
        votes = self._reader.read()
        places, homes, before = np.array(self._parts, np.int64).reshape(-1, 3).T.copy()
        for part, bad in self._judge.problems_of(votes, homes, before).items():
            self.problems.setdefault(int(places[part]), bad)
        if not sure:
            beyond = (place for place, bad in self.problems.items() if isinstance(bad, Beyond))
            records = min(beyond, default=records)
        rejected = {place: bad for place, bad in self.problems.items() if place < records}
        good = places < records
        if rejected:
            good &= ~np.isin(places, list(rejected))
        return Screened(votes.only(good), places[good], Restored(records, rejected))
