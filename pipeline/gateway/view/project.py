"""What a gateway knows of one project."""

from typing import Any

from orjson import dumps

from pipeline.gateway.view.history import History, Point
from pipeline.gateway.view.tasks import TaskView
from pipeline.gateway.view.workers import WorkerView
from pipeline.status.report import Summary
from pipeline.transfer.standing import Standing


class ProjectView:
    """Tasks, workers, dead letters and labels that stand, as far as they have been read."""

    def __init__(self, summary: Summary, standing: Standing) -> None:
        self.summary = summary
        self.tasks = TaskView(summary.tasks)
        self.workers = WorkerView(summary.workers)
        self.standing = standing
        self._has_labels = False
        self.history = History()
        self.status = b"{}"
        """The summary as JSON, encoded once for all requests."""

    def refresh(self) -> None:
        """Encode the summary, and add a point to the history."""
        summary, tasks = self.summary, self.summary.tasks
        self.status = dumps(summary.as_object())
        closed = sum(tasks.closed.values())
        self.history.add(
            Point(summary.activity.at, tasks.labels, tasks.expected_wrong, tasks.open, closed)
        )

    def labels_read(self) -> None:
        """All labels of the topic have been read: from now on `answers` knows them."""
        self._has_labels = True

    def answers(self, task: str) -> list[dict[str, Any]] | None:
        """The labels of a task that stand, with their workers' accuracies; None: not read yet."""
        if not self._has_labels:
            return None
        return [
            {**answer._asdict(), "accuracy": self.workers.tally.accuracy(answer.worker)}
            for answer in self.standing.answers_to(task)
        ]
