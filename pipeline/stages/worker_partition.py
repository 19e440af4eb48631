"""What the owner of a partition of workers knows of its labels."""

from collections import deque

from pipeline.records.answers import Answers
from pipeline.stages.offsets import CountedOffsets

LATELY_NS = 5_000_000_000  # in which a crash can have kept a worker's record from its topic
LAST_GROUPS = 2  # votes go out together with the answers of the next group
MARKS = 50_000  # of forwarded labels: more than come until those of a crash are forwarded again


class WorkerPartition:
    """Which labels of a partition have been taken: `taken` is the offset of the last.

    `last` has the last records restored: the only ones whose votes a crash can have kept from
    the votes topic. `marks` are those of labels that were forwarded here of late.
    """

    def __init__(self) -> None:
        self.taken = -1
        self.offsets = CountedOffsets()
        self.marks: dict[int, None] = {}
        self.is_ready = False
        self.last: deque[list[Answers]] = deque(maxlen=LAST_GROUPS)
        self.is_continued = False
        self.restored: deque[tuple[int, list[str]]] = deque()  # time and workers of late

    @property
    def last_answers(self) -> list[Answers]:
        """The records of the last groups."""
        return [answers for group in self.last for answers in group]

    def restoring(self, answers: Answers, workers: list[str]) -> None:
        """Answers of these workers are being restored."""
        if not self.is_continued:
            self.last.append([])
        self.last[-1].append(answers)
        self.is_continued = answers.more
        time = answers.pieces[-1][0]
        self.restored.append((time, workers))
        while self.restored[0][0] < time - LATELY_NS:
            self.restored.popleft()

    def is_marked(self, mark: int) -> bool:
        """Whether a label was forwarded before; from now on it is."""
        if mark in self.marks:
            return True
        self.marks[mark] = None
        if len(self.marks) > MARKS:
            del self.marks[next(iter(self.marks))]
        return False

    def restored_of_late(self) -> list[str]:
        """The workers in the answers of the last seconds that were restored, once."""
        workers = {name for _, names in self.restored for name in names}
        self.restored.clear()
        return sorted(workers)
