"""On one instance, the result is Algorithm 1 on the labels as they were taken."""

from collections import Counter

import pytest

from sbic.engine.labels import Prior
from sbic.local.broker import EmbeddedBroker
from tests.agents.crowd import algorithm_1, as_taken, crowd
from tests.agents.kafka import agree_with_schemas, project
from tests.instances import instance

PRIOR = Prior(alpha=3.0, beta=2.0, q=0.4)
ENV = {"SBIC_ALPHA": "3", "SBIC_BETA": "2", "SBIC_PRIOR": "0.4"}


@pytest.mark.parametrize("partitions", [1, 8])
async def test_twenty_thousand_labels_on_one_instance(
    broker: EmbeddedBroker, partitions: int
) -> None:
    triples = crowd(labels=20_000, tasks=1_000, workers=200, seed=partitions)
    here = await project(broker, partitions=partitions)
    env = {**ENV, "SBIC_PARTITIONS": str(partitions)}
    with instance(broker.url, here.settings.prefix, **env) as running:
        running.wait_ready()
        half = len(triples) // 2
        await here.send(triples[:half])  # some as a backlog, some as they come
        await here.send(triples[half:])
        posteriors = await here.until_counted(len(triples))
        metrics = running.metrics()
        assert running.terminate() == 0
    taken = await as_taken(here)
    assert sorted(taken) == sorted(triples)
    engine = algorithm_1(taken, PRIOR)
    labels = Counter(task for task, _, _ in triples)
    assert {task: posterior["labels"] for task, posterior in posteriors.items()} == labels
    for task, posterior in posteriors.items():
        assert posterior["log_odds"] == pytest.approx(engine.log_odds(task), abs=1e-9)
    assert metrics['sbic_labels_total{outcome="counted"}'] == len(triples)
    assert metrics["sbic_label_to_posterior_seconds_count"] == len(triples)
    assert await agree_with_schemas(here) == {"label", "posterior", "worker"}
    ends = Counter(record.partition for record in await here.read(here.topics.labels.name))
    assert await here.committed(here.topics.labels.name) == ends
