"""An instance receives the estimates of a partition that it has released."""

import numpy as np
from aiokafka import ConsumerRecord

from sbic.instance.taken import Taken
from sbic.runtime.faust.producer import BatchProducer
from sbic.runtime.followers import EstimatesFollower
from sbic.runtime.publisher import Rejects
from sbic.wire.columns import COLUMNS
from sbic.wire.labels import encode_label
from sbic.wire.partitions import partition_of
from tests.agents.test_publisher import ANN, SETTINGS, TOPICS, Joined, record
from tests.stages.simulated.project import SEAL

T1 = partition_of(b"t1", SETTINGS.partitions)


def estimate(offset: int, value: bytes) -> ConsumerRecord:
    topic = TOPICS.estimates.name
    headers = [SEAL.header(topic, T1, value, COLUMNS)]
    return ConsumerRecord(topic, T1, offset, 0, 0, None, value, None, 0, len(value), headers)


async def test_estimates_that_the_next_owner_publishes_too_early_are_received() -> None:
    stalled, successor = Joined(), Joined()
    labels = [record(0, encode_label("t1", "ann", 1))]
    successor.workers.take({ANN: labels}, Taken[ConsumerRecord]())
    successor.tasks.close(1 - T1)
    successor.tasks.ready({T1}, generation=2)
    published = successor.instance.exchange.all_estimates()[T1]

    publisher = stalled.publisher
    rejects = Rejects(publisher.redirector, BatchProducer(SETTINGS, "rejects"))
    follower = EstimatesFollower(SETTINGS, stalled.instance, rejects)
    await follower.learn(T1, [estimate(offset, value) for offset, value in enumerate(published)])
    stalled.instance.close_tasks(T1)
    [here] = stalled.instance.crowd.number_tasks(["t1"])
    [there] = successor.instance.crowd.number_tasks(["t1"])
    expected = successor.instance.crowd.engine.beliefs([there])
    assert np.array_equal(stalled.instance.crowd.engine.beliefs([here]), expected)
    assert expected[0, 1] > 0.5
