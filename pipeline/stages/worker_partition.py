"""What the owner of a partition of workers knows of its labels."""

from collections import deque

from pipeline.records.answers import Answers
from pipeline.stages.lately import Lately
from pipeline.stages.offsets import CountedOffsets

# In which a crash can have kept a worker's record from its topic: those go out up to 10 s after the
# answers, and the broker may be away for a while before that.
LATELY_NS = 30_000_000_000
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
        self.restored = Lately(LATELY_NS)  # workers

    @property
    def last_answers(self) -> list[Answers]:
        """The records of the last groups."""
        return [answers for group in self.last for answers in group]

    def restoring(self, answers: Answers) -> None:
        """A record of answers is being restored."""
        if not self.is_continued:
            self.last.append([])
        self.last[-1].append(answers)
        self.is_continued = answers.more
        for mark in answers.marks:
            self.is_marked(mark)
        self.taken = max(self.taken, answers.upto)

    def is_marked(self, mark: int) -> bool:
        """Whether a label was forwarded before; from now on it is."""
        if mark in self.marks:
            return True
        self.marks[mark] = None
        if len(self.marks) > MARKS:
            del self.marks[next(iter(self.marks))]
        return False
