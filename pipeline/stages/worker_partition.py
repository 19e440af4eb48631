"""What the owner of a partition of workers knows about its labels."""

from collections import deque

from pipeline.records.answers import Answers
from pipeline.stages.offsets import CountedOffsets
from pipeline.stages.recent_names import RecentNames

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
