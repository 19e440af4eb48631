"""All that a gateway knows of one project."""

from typing import Any

from orjson import dumps

from pipeline.gateway.view.history import History, Point
from pipeline.gateway.view.tasks import TaskView
from pipeline.gateway.view.workers import WorkerView
from pipeline.status.letter_counts import LetterCounts
from pipeline.status.report import Summary
from pipeline.transfer.standing import Standing


class ProjectView:
    """Tasks, workers, dead letters and labels that stand, as far as they are read."""

    def __init__(self, summary: Summary, standing: Standing) -> None:
        self.summary = summary
        self.tasks = TaskView(summary.tasks)
        self.workers = WorkerView(summary.workers)
        self.letters = LetterCounts()
        self.standing = standing
        self.has_labels = False
        self.history = History()
        self.status = b"{}"
        """The summary as JSON, made once for all who ask."""

    def refresh(self) -> None:
        """Make the summary anew, and a point of the history."""
        summary, tasks = self.summary, self.summary.tasks
        self.letters.tell(summary)
        self.status = dumps(summary.as_object())
        closed = sum(tasks.closed.values())
        self.history.add(Point(summary.at, tasks.labels, tasks.expected_wrong, tasks.open, closed))

    def answers(self, task: str) -> list[dict[str, Any]] | None:
        """The labels of a task that stand, with what is known of their workers; None: not yet."""
        if not self.has_labels:
            return None
        return [
            {"worker": worker, "label": label, "accuracy": self.workers.tally.accuracy(worker)}
            for worker, label in self.standing.labels_of(task)
        ]
