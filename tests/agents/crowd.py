"""Crowds for tests on the real broker, and Algorithm 1 on them."""

import random
from collections.abc import Iterable

from orjson import loads

from sbic.engine.labels import Prior
from sbic.infer.fast_sbic import FastSBIC
from sbic.instance.taken import labels_in
from sbic.wire.changelogs import parse_answers
from tests.agents.kafka import ProjectOnBroker, Triple


def crowd(labels: int, tasks: int, workers: int, seed: int) -> list[Triple]:
    """Labels of a crowd in which no worker answers a task twice; every truth is 1."""
    rng = random.Random(seed)
    accuracy = [rng.betavariate(4, 3) for _ in range(workers)]
    pairs = rng.sample(range(tasks * workers), labels)
    return [
        (
            f"t{pair % tasks}",
            f"w{pair // tasks}",
            1 if rng.random() < accuracy[pair // tasks] else -1,
        )
        for pair in pairs
    ]


async def as_taken(project: ProjectOnBroker) -> list[Triple]:
    """The labels in the order in which one instance took them, by its answers topic."""
    labels = {
        (record.partition, record.offset): loads(record.value)
        for record in await project.read(project.topics.labels.name)
    }
    pieces = []
    for record in await project.read(project.topics.answers.name):
        answers = parse_answers(record.value)
        offsets = [label.offset for label in labels_in(answers, classes=2)]
        first = 0
        for taken_at, last in answers.pieces:
            some = [offset for offset in offsets if first <= offset <= last]
            pieces.append((taken_at, record.partition, some))
            first = last + 1
    return [
        (label["task"], label["worker"], label["label"])
        for _, partition, offsets in sorted(pieces)
        for offset in offsets
        for label in [labels[partition, offset]]
    ]


def algorithm_1(triples: Iterable[Triple], prior: Prior) -> FastSBIC[str, str]:
    """Fast SBIC after these labels."""
    engine: FastSBIC[str, str] = FastSBIC(prior)
    for task, worker, label in triples:
        assert label is not None
        engine.observe(task, worker, label)
    return engine
