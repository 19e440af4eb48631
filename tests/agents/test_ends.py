"""The end offsets of topics are requested until Kafka answers."""

import asyncio

import pytest

from sbic.instance.judge import Ends
from sbic.local.broker import EmbeddedBroker
from sbic.runtime.followers import EndsAsker
from tests.agents.kafka import project
from tests.brokers import needs_proc, paused

GIVES_UP_MS = 300  # 40 s is what aiokafka has, and a broker may be away for two minutes


@needs_proc
async def test_the_ends_are_known_once_a_broker_that_did_not_answer_does(
    broker: EmbeddedBroker,
) -> None:
    here = await project(broker, partitions=2)
    ends = Ends(2)
    asker = EndsAsker(here.settings, ends)
    async with asker:
        await asker.ask()
        ((partition, offset),) = await here.send([("t1", "w1", 1)])
        asker.consumer._request_timeout_ms = GIVES_UP_MS
        with paused(broker):
            asking = asyncio.create_task(asker.ask())
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(asyncio.shield(asking), 3 * GIVES_UP_MS / 1000)
        await asking
    assert ends.labels[partition] == offset + 1 == 1
