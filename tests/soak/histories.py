"""What happened to the labels of a task that does not count what it should."""

from collections import defaultdict
from collections.abc import Iterator

from orjson import JSONDecodeError, loads

from sbic.wire.bad import BadRecord
from sbic.wire.votes import parse_votes
from tests.agents.kafka import ProjectOnBroker

MOST_TASKS = 10


class Histories:
    """Of each task and worker: labels, and the votes for them, wherever these were written."""

    def __init__(self) -> None:
        self.of: defaultdict[tuple[str, str], list[str]] = defaultdict(list)
        self.labels: defaultdict[tuple[str, str], set[tuple[int, int]]] = defaultdict(set)
        self.votes: defaultdict[tuple[str, str], set[tuple[int, int]]] = defaultdict(set)

    async def read(self, here: ProjectOnBroker, tasks: set[str]) -> None:
        """Read the topics that tell of these tasks."""
        for record in await here.read(here.topics.labels.name):
            try:
                label = loads(record.value)
            except JSONDecodeError:
                continue
            if label["task"] in tasks:
                pair = label["task"], label["worker"]
                self.labels[pair].add((record.partition, record.offset))
                place = f"{record.partition}-{record.offset} at {record.timestamp}"
                self.of[pair].append(f"label {label['label']} {place}")
        for topic in (here.topics.votes.name, here.topics.evidence.name):
            for record in await here.read(topic):
                try:
                    votes = parse_votes(record.value, classes=2)
                except BadRecord:
                    continue
                rows = zip(
                    *(votes.tasks, votes.workers, votes.answers.tolist(), votes.offsets.tolist()),
                    strict=True,
                )
                for task, worker, answer, offset in rows:
                    if task in tasks:
                        self.votes[task, worker].add((votes.source, offset))
                        self.of[task, worker].append(
                            f"{topic.split('.')[-1]} {record.partition}-{record.offset} at "
                            f"{record.timestamp}: {answer} for {votes.source}-{offset}"
                        )

    def odd(self) -> Iterator[str]:
        """The histories that are not plain: a label, its vote, and that this was counted."""
        for (task, worker), history in self.of.items():
            is_plain = self.labels[task, worker] == self.votes[task, worker] and len(history) <= 3
            if not is_plain:
                yield f"{task} {worker}: " + "; ".join(history)
