"""An agent that lags does not hold up the records of other agents."""

import asyncio
from typing import Any

from sbic.local.broker import EmbeddedBroker
from tests.batched.apps import place, running

PARTITIONS = 4


async def test_others_go_on_while_one_agent_takes_nothing(broker: EmbeddedBroker) -> None:
    busy, quick = await place(broker, PARTITIONS), await place(broker, PARTITIONS)
    came, may_go_on = asyncio.Event(), asyncio.Event()

    async def be_behind(stream: Any) -> None:
        async for batch in stream:
            await may_go_on.wait()
            batch.finish()

    async def be_quick(stream: Any) -> None:
        async for batch in stream:
            batch.finish()
            came.set()

    app = busy.ours(be_behind)
    app.agent(app.topic(quick.topic), name="quick")(be_quick)
    async with running(app):
        try:
            for number in range(10 * app.conf.stream_buffer_maxsize):
                await busy.send(b"1", partition=number % PARTITIONS)  # each is fetched separately
            await quick.send(b"1")
            await asyncio.wait_for(came.wait(), 30)
        finally:
            may_go_on.set()  # else it could not be stopped
