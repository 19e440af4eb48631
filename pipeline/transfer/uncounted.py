"""Which of the labels sent are not counted yet, by the `sources` of posteriors."""

from collections import deque
from typing import NamedTuple

from pipeline.kafka.sending import Label, Sent
from pipeline.records.named_posteriors import AnyPosterior


class Counted(NamedTuple):
    """A label that is counted in a posterior, and when it was sent."""

    label: Label
    at: float


class Uncounted:
    """Labels that were sent and are not counted in any posterior read so far.

    A label at offset o of partition p is counted once `sources` of its task's posterior has o or
    more for p. This holds for a repeated answer too, though it changes nothing else. A skip reaches
    no posterior, and is left out.

    >>> labels = Uncounted()
    >>> two = [Label("t1", "ann", 1), Label("t1", "bob", -1)]
    >>> labels.add(Sent(at=0.5, partition=3, first=41, labels=two)), len(labels)
    ([], 2)
    >>> labels.learn({"task": "t1", "sources": {"3": 41}})
    [Counted(label=Label(task='t1', worker='ann', label=1), at=0.5)]
    >>> len(labels)
    1

    A posterior may be read before Kafka's acknowledgement of the label:

    >>> labels.learn({"task": "t2", "sources": {"3": 43}})
    []
    >>> labels.add(Sent(at=0.6, partition=3, first=43, labels=[Label("t2", "ann", 1)]))
    [Counted(label=Label(task='t2', worker='ann', label=1), at=0.6)]
    """

    def __init__(self) -> None:
        self._waiting: dict[tuple[str, str], deque[tuple[int, Counted]]] = {}
        self._sources: dict[str, dict[str, int]] = {}
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def add(self, sent: Sent) -> list[Counted]:
        """Add labels, in the order of offsets; returns those that are counted already."""
        source = str(sent.partition)
        counted = []
        for offset, label in enumerate(sent.labels, sent.first):
            task = label.task
            if label.label == 0:
                continue
            if task in self._sources and self._sources[task].get(source, -1) >= offset:
                counted.append(Counted(label, sent.at))
                continue
            self._waiting.setdefault((task, source), deque()).append(
                (offset, Counted(label, sent.at))
            )
            self._count += 1
        return counted

    def learn(self, posterior: AnyPosterior) -> list[Counted]:
        """Process a newer posterior of a task; returns the labels that it is the first to count."""
        task, sources = posterior["task"], posterior["sources"]
        self._sources[task] = sources
        counted = []
        for source, upto in sources.items():
            waiting = self._waiting.get((task, source))
            while waiting and waiting[0][0] <= upto:
                counted.append(waiting.popleft()[1])
        self._count -= len(counted)
        return counted
