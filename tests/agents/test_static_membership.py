"""A static member that restarts within its session keeps its partitions and loses nothing."""

import asyncio
from contextlib import ExitStack

from sbic.local.broker import EmbeddedBroker
from tests.agents.crowd import crowd
from tests.agents.kafka import project
from tests.agents.recount import agree_with_a_recount
from tests.instances import RunningInstance, instance

SESSION = {"SBIC_SESSION_SECONDS": "60"}
LABELS = 300  # in each of three parts


def partitions(running: RunningInstance) -> set[str]:
    """The partitions of labels that an instance reads."""
    return {
        name
        for name in running.metrics()
        if name.startswith("sbic_lag_records{") and ".labels" in name
    }


async def test_a_restart_moves_nothing_and_loses_nothing(broker: EmbeddedBroker) -> None:
    here = await project(broker)
    prefix = here.settings.prefix
    triples = crowd(labels=3 * LABELS, tasks=100, workers=50, seed=11)
    with (
        instance(broker.url, prefix, SBIC_INSTANCE_ID="b", **SESSION) as other,
        ExitStack() as runs,
    ):

        def start() -> RunningInstance:
            made = instance(broker.url, prefix, SBIC_INSTANCE_ID="a", **SESSION)
            return runs.enter_context(made)

        other.wait_ready()
        running = start()
        running.wait_ready()
        other.wait_ready()
        sent = await here.send(triples[:LABELS])
        await here.until_dealt_with(triples[:LABELS], sent)
        own, rebalances = partitions(running), other.metrics()["sbic_rebalances_total"]
        assert own
        assert own.isdisjoint(partitions(other))

        for part, end in ((1, running.terminate), (2, None)):
            if end is None:
                running.kill()
            else:
                assert await asyncio.to_thread(end) == 0
            some = triples[part * LABELS : (part + 1) * LABELS]
            places = await here.send(some)  # while it is away
            running = start()
            await asyncio.to_thread(running.wait_ready)
            await here.until_dealt_with(some, places)
            assert partitions(running) == own
            assert other.metrics()["sbic_rebalances_total"] == rebalances
            assert "removed from the group" not in other.log() + running.log()

        await agree_with_a_recount(here, triples)
