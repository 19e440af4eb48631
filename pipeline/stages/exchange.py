"""What instances tell each other of tasks and workers, so that each knows of all."""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from pipeline.inference.engine.engine import Sums
from pipeline.inference.labels import Ints
from pipeline.records.bad import BadRecord
from pipeline.records.estimates import (
    Ask,
    Beliefs,
    Counts,
    Estimates,
    Rest,
    Whole,
    encode_estimates,
    parse_estimates,
)
from pipeline.stages.crowd import OPEN
from pipeline.stages.numbering import Numbering
from pipeline.stages.rows import by_home
from pipeline.stages.task_stage import TaskStage

RECORD_BYTES = 700_000  # at the most, with names of the greatest length

Told = dict[int, list[bytes]]
"""Records for the estimates topic, by partition."""


class Exchange:
    """Tells of what is here, and hears of what is elsewhere.

    The owner of a partition of tasks is also that of the same partition of workers. What its tasks
    and workers add to the sums of the crowd is told in one of its partitions, and nothing in the
    others: so the sums of all partitions are those of all instances.
    """

    def __init__(self, stage: TaskStage) -> None:
        self.stage = stage
        self.crowd = stage.crowd
        self.epochs = [-1] * self.crowd.partitions
        self.sums: dict[int, Sums] = {}
        self.heard = np.zeros(self.crowd.partitions, np.bool_)
        self.is_asked = False  # to tell everything again
        self.tasks = Numbering(
            self.crowd.tasks, self.crowd.number_tasks, self.crowd.task, self.crowd.partitions
        )
        self.workers = Numbering(
            self.crowd.workers, self.crowd.number_workers, self.crowd.worker, self.crowd.partitions
        )
        row = 300 + 8 * (2 + len(self.crowd.classes))
        self.rows_at_once = max(1, RECORD_BYTES // row)

    @property
    def missing(self) -> list[int]:
        """The partitions that nothing has been heard of yet."""
        found: list[int] = np.flatnonzero(~(self.heard | self.crowd.has_tasks_of)).tolist()
        return found

    def left(self, partition: int) -> None:
        """The partition went to another instance; all of it is known."""
        self.heard[partition] = True
        self.epochs[partition] = self.stage.partitions[partition].epoch + 1  # of the next owner

    def tell(self, tasks: Ints, workers: Ints) -> Told:
        """These own tasks and workers as they are now, and what they add to the sums."""
        told: Told = {}
        if self.crowd.is_alone or not (len(tasks) or len(workers)):
            return told
        self._tell_tasks(tasks, told)
        if self.crowd.engine.is_settled:
            self._tell_workers(workers, told)
            self._tell(told, self._spokesman(), self.crowd.engine.sums)
        return told

    def tell_all(self) -> Told:
        """All own tasks and workers."""
        told: Told = {}
        if self.crowd.is_alone:
            return told
        nothing = Sums(0.0, 0.0, 0.0, np.zeros(len(self.crowd.classes)))
        for partition in self.stage.partitions:
            tasks, workers = self.crowd.tasks_of(partition), self.crowd.workers_of(partition)
            self.tasks.begin(partition, tasks)
            self.workers.begin(partition, workers)
            self._tell_tasks(tasks, told)
            if self.crowd.engine.is_settled:
                self._tell_workers(workers, told)
            is_spokesman = partition == self._spokesman()
            self._tell(told, partition, Whole(self.crowd.engine.sums if is_spokesman else nothing))
        return told

    def tell_rest(self, is_at_rest: bool) -> Told:
        """Whether this instance is at rest, for whoever wants to know."""
        told: Told = {}
        if self.stage.partitions:
            rest = Rest(is_at_rest, self.crowd.engine.due)
            self._tell(told, self._spokesman(), rest)
        return told

    def ask(self) -> Told:
        """Ask the others to tell everything again."""
        told: Told = {}
        if self.stage.partitions:
            self._tell(told, self._spokesman(), Ask())
        return told

    def take_question(self) -> bool:
        """Return whether another instance has asked for everything, and forget that it has."""
        was_asked, self.is_asked = self.is_asked, False
        return was_asked

    def _spokesman(self) -> int:
        return min(self.stage.partitions)

    def _tell(self, told: Told, partition: int, estimates: Estimates) -> None:
        epoch = self.stage.partitions[partition].epoch
        told.setdefault(partition, []).append(encode_estimates(epoch, estimates))

    def _tell_tasks(self, tasks: Ints, told: Told) -> None:
        crowd, engine = self.crowd, self.crowd.engine
        for home, some in self._by_home(tasks, crowd.task.home):
            beliefs = Beliefs(
                self.tasks.tell(home, some),
                engine.label_counts(some).astype(np.int32),
                engine.golds(some).astype(np.int16),
                crowd.task.reason[some] == OPEN,
                engine.evidence(some),
            )
            self._tell(told, home, beliefs)

    def _tell_workers(self, workers: Ints, told: Told) -> None:
        crowd = self.crowd
        for home, some in self._by_home(workers, crowd.worker.home):
            counts = Counts(self.workers.tell(home, some), crowd.engine.counts(some))
            self._tell(told, home, counts)

    def _by_home(self, numbers: Ints, homes: NDArray[np.int32]) -> Iterator[tuple[int, Ints]]:
        """The numbers of each partition, not too many at once."""
        for home, places in by_home(homes[numbers]):
            for start in range(0, len(places), self.rows_at_once):
                yield home, numbers[places[start : start + self.rows_at_once]]

    def hear(self, partition: int, value: bytes | None) -> BadRecord | None:
        """Take what the owner of a partition tells; what is wrong with it if it cannot be.

        What a former owner tells late is ignored.
        """
        if self.crowd.has_tasks_of[partition]:
            return None  # told by this instance
        try:
            epoch, told = parse_estimates(value, len(self.crowd.classes))
            if epoch >= self.epochs[partition]:
                self._hear(partition, told)
                self.epochs[partition] = epoch
        except BadRecord as bad:
            return bad
        return None

    def _hear(self, partition: int, told: Estimates) -> None:
        match told:
            case Beliefs():
                self._hear_of_tasks(partition, told)
            case Counts():
                self.stage.judge.check_counts(told.counts)
                workers = self.workers.hear(partition, told.workers)
                if workers is not None:
                    self.crowd.engine.hear_of_workers(workers, told.counts)
            case Whole():
                self.heard[partition] = True
                self._hear_of_sums(partition, told.sums)
            case Sums():
                self._hear_of_sums(partition, told)
            case Ask():
                self.is_asked = True

    def _hear_of_tasks(self, partition: int, told: Beliefs) -> None:
        crowd = self.crowd
        tasks = self.tasks.hear(partition, told.tasks)
        if tasks is None:
            return
        crowd.task.told_labels[tasks] = told.labels
        crowd.task.reason[tasks] = np.where(told.is_open, OPEN, 1)
        crowd.engine.hear_of_tasks(tasks, told.scores, told.gold)
        crowd.changed.add(tasks)

    def _hear_of_sums(self, partition: int, sums: Sums) -> None:
        self.sums[partition] = sums
        self.hear_of_crowd()

    def hear_of_crowd(self) -> None:
        """Let the sums be those of the partitions that are elsewhere now."""
        own = self.crowd.has_tasks_of
        others = [sums for partition, sums in self.sums.items() if not own[partition]]
        self.crowd.engine.hear_of_crowd(others)
