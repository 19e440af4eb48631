"""One that was stalled answers no request that another instance has answered meanwhile."""

from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any, cast

from pipeline.agents.assignments_follower import AssignmentsFollower
from pipeline.agents.dead_letter_log import DeadLetterLog
from pipeline.agents.metrics import Metrics
from pipeline.agents.policy_agent import PolicyAgent, RequestGroup
from pipeline.agents.redirector import Redirector
from pipeline.batched.producer import BatchProducer
from pipeline.records.assignments import encode_lease
from pipeline.records.requests import encode_request
from pipeline.settings import Settings
from pipeline.stages.assignment_stage import Rules
from pipeline.stages.judge import Ends, Judge
from pipeline.topics import Topics
from tests.stages.desk import Desk
from tests.stages.simulated_kafka import Record

SETTINGS = Settings(partitions=1)
TOPIC = Topics(SETTINGS).assignments.name


class Stalled(AssignmentsFollower):
    """What it finds on the topic when it goes on."""

    meanwhile: tuple[bytes, ...] = ()

    async def catch_up(self, partitions: Iterable[int]) -> None:
        for partition in partitions:
            records: Any = [SimpleNamespace(value=value) for value in self.meanwhile]
            await self.learn(partition, records)


async def test_what_another_has_answered_is_left_out_and_its_lease_ends() -> None:
    desk = Desk(Rules(), partitions=1)
    desk.describe([{"task": "t1"}, {"task": "t2"}, {"task": "t3"}])
    judge = Judge(desk.stage.crowd, Ends(1, at=100))
    nobody = cast(Any, None)  # nothing is beyond the ends, and nothing is rejected
    follower = Stalled(SETTINGS, desk.leases, judge, nobody, nobody)
    producer = cast(BatchProducer, SimpleNamespace())
    is_overdue = [False]
    topics, metrics = Topics(SETTINGS), Metrics(SETTINGS.prefix)
    agent = PolicyAgent(
        desk.stage,
        follower,
        topics,
        producer,
        metrics,
        Redirector(topics, metrics, DeadLetterLog()),
        lambda: is_overdue[0],
    )
    group = RequestGroup()
    requests = [Record(offset, 0, encode_request("ann")) for offset in (7, 8)]
    desk.stage.answer(0, cast(Any, requests), 0, group)
    outbox = agent.pack(group).first
    mine = [value for _, value, *_ in outbox[TOPIC, 0]]
    await agent.screen(outbox)
    assert len(outbox[TOPIC, 0]) == 2

    is_overdue[0] = True
    follower.meanwhile = (encode_lease("ann", "t9", "0-7-0", "uncertainty", 0, 10**15),)
    await agent.screen(outbox)
    assert [value for _, value, *_ in outbox[TOPIC, 0]] == mine[1:]
    assert len(desk.leases) == 1
