"""Tells whether a record between instances can be ours.

Whoever can write to a topic can write anything. What cannot be is not believed: labels that do not
exist, tasks and workers of another partition, numbers that no computation gives. What is left of
forged records cannot be told from ours: that is for access control.
"""

from collections.abc import Sequence
from math import log

import numpy as np

from pipeline.classes import SKIP
from pipeline.inference.labels import Floats
from pipeline.records.answers import Answers
from pipeline.records.assignments import LABEL, Assignment, place_of
from pipeline.records.bad import BadRecord, Reason
from pipeline.records.columns import MOST
from pipeline.records.facts import Facts
from pipeline.records.requests import MAX_COUNT
from pipeline.records.votes import NOBODY, NOTHING, Votes
from pipeline.stages.crowd import Crowd
from pipeline.stages.homes import homes_of

ROUNDING = 1e-6  # that sums of many labels may leave


class Beyond(BadRecord):
    """A record of offsets that are beyond the end of their partition, as far as that is known."""

    def __init__(self, topic: str, partition: int, offset: int, end: int) -> None:
        problem = f"partition {partition} of {topic} ends at {end:,}, before offset {offset:,}"
        super().__init__(Reason.NOT_OURS, problem)


class Ends:
    """Where the partitions of the topics end that users write to, as far as is known."""

    def __init__(self, partitions: int, at: int = 0) -> None:
        self.labels = np.full(partitions, at, np.int64)
        self.tasks = np.full(partitions, at, np.int64)
        self.requests = np.full(partitions, at, np.int64)


class Judge:
    """Raises `BadRecord` of what cannot be ours; `Beyond` where a later end may change that."""

    def __init__(self, crowd: Crowd, ends: Ends) -> None:
        self.crowd = crowd
        self.ends = ends
        alpha, beta = crowd.engine.prior.alpha, crowd.engine.prior.beta
        # of a worker with as many labels as there can be; another answer counts twice as much
        self.most_vote = 2 * log((MOST + alpha + beta) / min(alpha, beta))

    def check_votes(self, votes: Votes, home: int) -> None:
        """Votes for the partition of tasks `home`, or for nobody."""
        if votes.source >= self.crowd.partitions:
            raise _not_ours(f"there is no partition {votes.source}")
        if not len(votes.offsets):
            return
        is_for_nobody = (votes.answers == SKIP) | (votes.answers == NOTHING)
        if (is_for_nobody != (home == NOBODY)).any():
            raise _not_ours("labels that go to nobody are among those that go to tasks")
        if np.abs(votes.votes).max() > self.most_vote:
            raise _not_ours("no label weighs as much")
        self.check_counts(votes.counts)
        if home != NOBODY and not self._are_of(home, votes.tasks):
            raise _not_ours(f"a task is not of partition {home}")
        if not self._are_of(votes.source, votes.workers):
            raise _not_ours(f"a worker is not of partition {votes.source}")
        self._check_end(votes.source, int(votes.offsets[-1]))

    def check_answers(self, partition: int, answers: Answers, parts: Sequence[Votes]) -> None:
        """Answers of a partition of workers, and the votes in them."""
        for (home, _), votes in zip(answers.votes, parts, strict=True):
            if home >= self.crowd.partitions or votes.source != partition:
                raise _not_ours("votes of or for another partition")
            self.check_votes(votes, home)
            if len(votes.offsets) and votes.offsets[-1] > answers.upto:
                raise _not_ours("votes of labels that were not taken")
        self._check_end(partition, answers.upto)

    def check_counts(self, counts: Floats) -> None:
        """What is known of workers: n, a and F, a row for each."""
        if counts.size:
            given, right = counts[:, 0], counts[:, 1]
            slack = ROUNDING * (1 + given)
            if (right > given + slack).any() or (
                np.abs(counts[:, 2:].sum(axis=1) - given) > slack
            ).any():
                raise _not_ours("a worker has not as many labels")

    def check_facts(self, partition: int, facts: Facts) -> None:
        """Facts of a partition of tasks."""
        end = int(self.ends.tasks[partition])
        names = [fact.task for fact in facts.rows]
        if not self._are_of(partition, names):
            raise _not_ours(f"a task is not of partition {partition}")
        last = max((fact.offset for fact in facts.rows), default=-1)
        if last >= end:
            raise Beyond("tasks", partition, last, end)

    def check_assignment(self, partition: int, assignment: Assignment) -> None:
        """A record of a partition of assignments."""
        try:
            place = place_of(assignment.id)
        except ValueError:
            raise _not_ours(f"its id {assignment.id!r:.40} names no request") from None
        ends = {"": self.ends.requests, LABEL: self.ends.labels}.get(place.source)
        if ends is None or place.partition not in range(self.crowd.partitions):
            raise _not_ours("there is no partition that its id names")
        if place.number not in range(MAX_COUNT) or place.offset < 0:
            raise _not_ours("its id names no request")
        if self.crowd.home_of(assignment.worker) != partition:
            raise _not_ours(f"a worker is not of partition {partition}")
        end = int(ends[place.partition])
        if place.offset >= end:
            raise Beyond(
                "labels" if place.source else "requests", place.partition, place.offset, end
            )

    def _check_end(self, partition: int, offset: int) -> None:
        end = int(self.ends.labels[partition])
        if offset >= end:
            raise Beyond("labels", partition, offset, end)

    def _are_of(self, partition: int, names: Sequence[str]) -> bool:
        """Whether all of these names are of a partition: to compute it is quicker than a lookup."""
        return bool((homes_of(names, self.crowd.partitions) == partition).all())


def _not_ours(problem: str) -> BadRecord:
    return BadRecord(Reason.NOT_OURS, f"not a record of sbic: {problem}")
