"""A stop rule on recorded labels: the pipeline closes each task where the simulation does."""

from collections.abc import Iterator
from typing import cast

import numpy as np
import pytest

from sbic.commands.replay import Uncounted
from sbic.engine.labels import Labels, Prior
from sbic.kafka.reader import reading
from sbic.kafka.writer import Label, sending
from sbic.local.broker import EmbeddedBroker
from sbic.research.stopping import stopped
from sbic.status.watch import posteriors
from sbic.wire.posteriors import Posterior
from tests.agents.kafka import Project, project
from tests.inference.crowds import random_crowd, real_crowd
from tests.instances import instance

CONFIDENCE = 0.99


def recorded(name: str) -> Labels:
    """The labels of a crowd in random order."""
    labels = random_crowd(60, 40, 20, seed=1) if name == "random" else real_crowd(name)[0]
    return labels.in_order(np.random.default_rng(11).permutation(len(labels)))


def windows(labels: Labels) -> Iterator[list[tuple[int, Label]]]:
    """All labels in order, in pieces that have no task twice, each with its place."""
    window: dict[str, tuple[int, Label]] = {}
    triples = zip(labels.task.tolist(), labels.worker.tolist(), labels.label.tolist(), strict=True)
    for place, (task, worker, label) in enumerate(triples):
        name = labels.task_names[task]
        if name in window:
            yield list(window.values())
            window = {}
        window[name] = place, Label(name, labels.worker_names[worker], label)
    yield list(window.values())


async def ask_for_open_tasks_only(kafka: Project, labels: Labels) -> tuple[list[int], np.ndarray]:
    """Send each label unless its task is closed by then: those sent, and the log-odds."""
    asked: list[int] = []
    closed: set[str] = set()
    log_odds = dict.fromkeys(labels.task_names, 0.0)
    async with (
        sending(kafka.settings) as sender,
        reading(kafka.settings, kafka.topics.posteriors.name, from_start=True) as reader,
    ):
        uncounted = Uncounted()
        for window in windows(labels):
            still_open = [(place, label) for place, label in window if label[0] not in closed]
            asked += [place for place, _ in still_open]
            async for sent in sender.send_all([label for _, label in still_open]):
                uncounted.add(sent)
            while uncounted:
                for posterior in posteriors(await reader.next(seconds=30)):
                    uncounted.learn(posterior)
                    log_odds[posterior["task"]] = cast(Posterior, posterior)["log_odds"]
                    if posterior["status"] == "closed":
                        assert posterior["reason"] == "confident"
                        closed.add(posterior["task"])
    return asked, np.array(list(log_odds.values()))


@pytest.mark.parametrize("crowd", ["random", "rte"])
async def test_it_asks_for_the_same_labels_as_in_memory_and_knows_the_same(
    broker: EmbeddedBroker, crowd: str
) -> None:
    labels = recorded(crowd)
    expected, estimate = stopped(labels, Prior(), CONFIDENCE)
    kafka = await project(broker, partitions=1)
    rule = {"SBIC_PARTITIONS": "1", "SBIC_STOP_CONFIDENCE": str(CONFIDENCE)}
    with instance(kafka.settings.broker, kafka.settings.prefix, **rule) as one:
        one.wait_ready()
        asked, log_odds = await ask_for_open_tasks_only(kafka, labels)
    assert asked == expected.tolist()
    assert len(asked) < 0.9 * len(labels), "or the rule saves nothing, and this shows nothing"
    np.testing.assert_allclose(log_odds, estimate.score, rtol=0, atol=1e-9)
