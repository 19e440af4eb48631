"""Counts the labels sent that are repeated answers, by reading the answers topic."""

from collections.abc import Iterable

import numpy as np
from aiokafka import ConsumerRecord

from pipeline.kafka.sending import Sent
from pipeline.records.answers import parse_answers
from pipeline.records.bad import BadRecord
from pipeline.records.many_votes import parse_votes
from pipeline.records.votes import REPEAT


class Repeats:
    """Counts those of the labels sent whose worker had answered the task before."""

    def __init__(self, classes: int) -> None:
        self._classes = classes
        self._sent: dict[int, list[tuple[int, int]]] = {}  # ranges of offsets, by partition
        self.found = 0

    def add(self, sent: Sent) -> None:
        """Add acknowledged labels, in the order of offsets."""
        ranges = self._sent.setdefault(sent.partition, [])
        end = sent.first + len(sent.labels)
        if ranges and ranges[-1][1] == sent.first:
            ranges[-1] = ranges[-1][0], end
        else:
            ranges.append((sent.first, end))

    def learn(self, records: Iterable[ConsumerRecord]) -> None:
        """Process records of the answers topic."""
        for record in records:
            try:
                parts = [
                    parse_votes(value, self._classes)
                    for _, value in parse_answers(record.value).votes
                ]
            except BadRecord:
                continue  # not an sbic record: ignore
            ranges = self._sent.get(record.partition, [])
            starts = np.array([first for first, _ in ranges], np.int64)
            ends = np.array([end for _, end in ranges], np.int64)
            for votes in parts:
                offsets = votes.offsets[votes.answers == REPEAT]
                index = np.searchsorted(starts, offsets, "right") - 1
                self.found += int(((index >= 0) & (offsets < ends[index])).sum()) if ranges else 0
