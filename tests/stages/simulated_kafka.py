"""The stages joined as the agents join them, with lists in the place of topics."""

from collections.abc import Sequence
from dataclasses import dataclass

from pipeline.inference.algorithm import Prior
from pipeline.inference.one_coin import OneCoin
from pipeline.partitioner import partition_of
from pipeline.records.labels import encode_label
from pipeline.records.posteriors import Posterior
from pipeline.records.votes import Answers, encode_answers, parse_answers, parse_votes
from pipeline.stages.task_stage import TaskStage
from pipeline.stages.task_view import TaskView
from pipeline.stages.worker_stage import Taken, WorkerStage

Triple = tuple[str, str, int | None]
PRIOR = Prior(alpha=2.0, beta=1.5, q=0.3)


@dataclass
class Record:
    offset: int
    timestamp: int
    value: bytes | None


class Log:
    """The topics: labels and answers by partition, votes and posteriors likewise."""

    def __init__(self, partitions: int) -> None:
        self.partitions = partitions
        self.labels: list[list[Record]] = [[] for _ in range(partitions)]
        self.answers: list[list[bytes]] = [[] for _ in range(partitions)]
        self.votes: list[list[bytes]] = [[] for _ in range(partitions)]
        self.posteriors: list[list[Posterior]] = [[] for _ in range(partitions)]

    def produce(self, task: str, worker: str, label: int | None) -> int:
        """Append a label; its partition."""
        partition = partition_of(worker.encode(), self.partitions)
        labels = self.labels[partition]
        labels.append(Record(len(labels), len(labels), encode_label(task, worker, label)))
        return partition


class OneInstance:
    """All partitions on one instance."""

    def __init__(self, log: Log, repeats: str = "first") -> None:
        self.log = log
        self.view = TaskView(OneCoin(PRIOR), PRIOR.log_odds, log.partitions)
        self.workers = WorkerStage(self.view, repeats)  # type: ignore[arg-type]
        self.tasks = TaskStage(PRIOR.log_odds)
        self.counted = [0] * log.partitions  # votes read
        for partition in range(log.partitions):
            self.workers.open(partition)
            self.tasks.open(partition)

    def recover(self) -> None:
        """Take up what an earlier instance left in the log."""
        for partition, posteriors in enumerate(self.log.posteriors):
            for offset, posterior in enumerate(posteriors):
                self.view.learn(posterior, offset)
                self.tasks.restore(partition, posterior)
        for partition, answers in enumerate(self.log.answers):
            for value in answers:
                self.workers.restore(partition, parse_answers(value))
            for votes in self.workers.partitions[partition].last:
                self._send(encode_answers(Answers([], votes), partition)[1])

    def take(
        self, partition: int, records: Sequence[Record], *, crash_before_votes: bool = False
    ) -> Taken[Record]:
        """What the worker agent does with a batch, up to a crash."""
        taken: Taken[Record] = Taken()
        self.workers.take(partition, records, taken)
        answers, votes = encode_answers(Answers(taken.pieces, taken.votes), partition)
        self.log.answers[partition].append(answers)
        if not crash_before_votes:
            self._send(votes)
        return taken

    def _send(self, votes: dict[int, bytes]) -> None:
        for partition, value in votes.items():
            self.log.votes[partition].append(value)

    def count(self, *, from_the_start: bool = False) -> None:
        """What the task agent does with all votes that wait."""
        for partition, votes in enumerate(self.log.votes):
            for value in votes[0 if from_the_start else self.counted[partition] :]:
                source, rows = parse_votes(value)
                for task in self.tasks.count(partition, source, rows).tasks:
                    self.publish(partition, task)
            self.counted[partition] = len(votes)

    def publish(self, partition: int, task: str) -> None:
        """The posterior of a task goes to its topic and into the view."""
        posterior = self.tasks.posterior(partition, task)
        self.log.posteriors[partition].append(posterior)
        self.view.learn(posterior, len(self.log.posteriors[partition]) - 1)

    def results(self) -> dict[str, Posterior]:
        """The last posterior of every task."""
        return {p["task"]: p for posteriors in self.log.posteriors for p in posteriors}
