"""The worker agent's step: labels in, votes out; holds the answers of this instance's workers."""

from collections import Counter, deque
from collections.abc import Sequence
from enum import StrEnum
from time import time_ns
from typing import Generic, Literal, NamedTuple, Protocol, TypeVar

from pipeline.partitioner import partition_of
from pipeline.records.bad import BadRecord
from pipeline.records.labels import parse_label
from pipeline.records.votes import SKIPS, Answers, Vote, VotesByPartition
from pipeline.stages.task_view import Answer, Belief, TaskView, Worker

LATELY_NS = 5_000_000_000  # in which a crash can have kept a worker's record from its topic


class Record(Protocol):
    """What the step needs of a record, as aiokafka has it."""

    offset: int
    timestamp: int
    value: bytes | None


class Outcome(StrEnum):
    """What became of a label; also the value of a metric's label."""

    COUNTED = "counted"
    REPEATED = "repeated"
    SKIPPED = "skipped"
    RETRACTED = "retracted"
    REJECTED = "rejected"
    FORWARDED = "forwarded"


R = TypeVar("R", bound=Record)


class Rejected(NamedTuple, Generic[R]):
    """A record for the dead letters."""

    record: R
    why: BadRecord


class Forwarded(NamedTuple, Generic[R]):
    """A label that came to another partition than its worker's, and the right one."""

    record: R
    worker: str
    partition: int


class Taken(Generic[R]):
    """What labels of one partition came to: all that is to be published before they are acked."""

    def __init__(self) -> None:
        self.pieces: list[tuple[int, int]] = []  # time, and offset of the last label
        self.votes: VotesByPartition = {}
        self.workers: dict[Worker, None] = {}  # those whose counts changed, in order
        self.rejected: list[Rejected[R]] = []
        self.forwarded: list[Forwarded[R]] = []
        self.outcomes: Counter[Outcome] = Counter()


class WorkerPartition:
    """The workers of one labels partition, and how far their labels have been taken.

    `last` has the votes of the last two records restored: the only ones that a crash can have
    kept from the votes topic, since votes go out together with the answers of the next group.
    """

    def __init__(self) -> None:
        self.workers: dict[str, Worker] = {}
        self.taken = -1
        self.last: deque[VotesByPartition] = deque(maxlen=2)
        self.restored: deque[tuple[int, set[str]]] = deque()  # time and workers of late

    def restoring(self, time: int, workers: set[str]) -> None:
        """Answers of these workers, taken then, are being restored."""
        self.restored.append((time, workers))
        while self.restored[0][0] < time - LATELY_NS:
            self.restored.popleft()

    def restored_of_late(self) -> dict[Worker, None]:
        """The workers in the answers of the last seconds that were restored, once."""
        names = {name for _, workers in self.restored for name in workers}
        self.restored.clear()
        return dict.fromkeys(self.workers[name] for name in names)


class WorkerStage:
    """Algorithm 1, lines 5 and 6, on the labels in the order in which they are taken."""

    def __init__(self, view: TaskView, repeats: Literal["first", "last"] = "first") -> None:
        self.view = view
        self.model = view.model
        self.repeats = repeats
        self.partitions: dict[int, WorkerPartition] = {}

    @property
    def workers(self) -> int:
        """How many workers this instance knows."""
        return sum(len(state.workers) for state in self.partitions.values())

    def open(self, partition: int) -> None:
        """Become the owner of a partition that nothing is known of yet."""
        self.close(partition)
        self.partitions[partition] = WorkerPartition()

    def close(self, partition: int) -> None:
        """Forget a partition: its workers' answers no longer follow the tasks."""
        state = self.partitions.pop(partition, None)
        for worker in state.workers.values() if state else ():
            for task in worker.answers:
                del self.view[task].crowd[worker]

    def restore(self, partition: int, answers: Answers) -> None:
        """Apply what an earlier owner, or this one, took and wrote to the answers topic.

        Labels may be in it twice: an instance that was stalled goes on for a moment after another
        has taken its place. The first time counts.
        """
        state = self.partitions[partition]
        if answers.upto <= state.taken:
            return
        rows = [row for rows in answers.votes.values() for row in rows if row[5] > state.taken]
        rows.sort(key=_offset)
        state.taken = answers.upto
        state.last.append(answers.votes)
        state.restoring(answers.taken[-1][0], {row[1] for row in rows})
        source = str(partition)
        for task, name, label, vote, labels, offset, timestamp in rows:
            worker = state.workers.get(name) or state.workers.setdefault(name, Worker(name))
            worker.last_seen = max(worker.last_seen, timestamp)
            if label == 0:
                worker.skipped.add(task)
                continue
            belief = self.view[task]
            old = self._forget(worker, task, belief)
            if not self.view.counts(belief, source, offset):
                self.view.add(task, belief, (source, offset, vote, labels))
            if label is not None:
                self._remember(worker, task, belief, (label, old + vote))

    def take(self, partition: int, records: Sequence[R], taken: Taken[R]) -> None:
        """Turn labels into votes, and add what they come to to `taken`."""
        state = self.partitions[partition]
        workers = state.workers
        beliefs = self.view.beliefs
        source = str(partition)
        touched = taken.workers
        votes = taken.votes
        changed = self.view.changed
        counted = skipped = 0
        for record in records:
            offset = record.offset
            if offset <= state.taken:
                continue  # taken before a crash or a rebalance, and what it came to was sent
            try:
                task, name, label = parse_label(record.value)
            except BadRecord as bad:
                taken.rejected.append(Rejected(record, bad))
                continue
            worker = workers.get(name)
            if worker is None:
                home = partition_of(name.encode(), self.view.partitions)
                if home != partition:
                    taken.forwarded.append(Forwarded(record, name, home))
                    continue
                worker = workers[name] = Worker(name)
            if record.timestamp > worker.last_seen:
                worker.last_seen = record.timestamp
            if label == 0:
                skipped += 1
                worker.skipped.add(task)
                touched[worker] = None
                skip = (task, name, 0, 0.0, 0, offset, record.timestamp)
                votes.setdefault(SKIPS, []).append(skip)
                continue
            belief = beliefs.get(task) or self.view[task]
            if label and task not in worker.answers:
                vote, labels = self._answer(worker, task, belief, label), 1
                counted += 1
            else:
                outcome, label, vote, labels = self._again(worker, task, belief, label)
                taken.outcomes[outcome] += 1
                if outcome is Outcome.SKIPPED:
                    continue
            belief.pending.append((source, offset, vote, labels))
            belief.labels += labels
            self.view.labels += labels
            if changed is not None:
                changed[task] = None
            touched[worker] = None
            row = (task, name, label, vote, labels, offset, record.timestamp)
            if belief.partition in votes:
                votes[belief.partition].append(row)
            else:
                votes[belief.partition] = [row]
        taken.outcomes[Outcome.COUNTED] += counted
        taken.outcomes[Outcome.SKIPPED] += skipped
        taken.outcomes[Outcome.REJECTED] = len(taken.rejected)
        taken.outcomes[Outcome.FORWARDED] = len(taken.forwarded)
        state.taken = max(state.taken, records[-1].offset)
        taken.pieces.append((time_ns(), state.taken))

    def _answer(self, worker: Worker, task: str, belief: Belief, label: int) -> float:
        """A new answer: weigh the worker by their answers so far, and move the task."""
        vote = self.model.vote(label, worker.labels, worker.correct)
        self.view.vote(belief, vote)
        self._remember(worker, task, belief, (label, vote))
        return vote

    def _again(
        self, worker: Worker, task: str, belief: Belief, label: int | None
    ) -> tuple[Outcome, int | None, float, int]:
        """Anything but a first answer: its outcome, the label that stands, the vote and labels.

        A repeat votes 0: it changes nothing, and its sender sees that it has been dealt with.
        """
        answer = worker.answers.get(task)
        if answer is None:
            return Outcome.SKIPPED, label, 0.0, 0  # nothing to take back
        old_label, old_vote = answer
        if label is not None and (self.repeats == "first" or label == old_label):
            return Outcome.REPEATED, old_label, 0.0, 0
        self._forget(worker, task, belief)
        self.view.vote(belief, -old_vote)
        if label is None:
            return Outcome.RETRACTED, None, -old_vote, -1
        return Outcome.COUNTED, label, self._answer(worker, task, belief, label) - old_vote, 0

    def _remember(self, worker: Worker, task: str, belief: Belief, answer: Answer) -> None:
        label, _ = worker.answers[task] = answer
        worker.labels += 1
        worker.correct += self.model.agreement(label, belief.log_odds)
        if belief.gold:
            worker.gold += 1
            worker.gold_right += label == belief.gold
        belief.crowd[worker] = label

    def _forget(self, worker: Worker, task: str, belief: Belief) -> float:
        """Undo `_remember`; the vote that the answer had, 0 if there was none."""
        if task not in worker.answers:
            return 0.0
        label, vote = worker.answers.pop(task)
        del belief.crowd[worker]
        worker.labels -= 1
        worker.correct -= self.model.agreement(label, belief.log_odds)
        if belief.gold:
            worker.gold -= 1
            worker.gold_right -= label == belief.gold
        return vote


def _offset(row: Vote) -> int:
    offset: int = row[5]
    return offset
