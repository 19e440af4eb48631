"""An instance outside the group takes back the assignments that it had not published."""

from types import SimpleNamespace
from typing import Any, cast

import pytest

from sbic.instance.publication import Outbox
from sbic.instance.requests import Rules
from sbic.project.settings import Settings
from sbic.project.topics import Topics
from sbic.runtime.agents import PolicyAgent, RequestGroup
from sbic.runtime.faust.producer import BatchProducer
from sbic.runtime.followers import AssignmentsFollower
from sbic.runtime.logs import DeadLetterLog
from sbic.runtime.metrics import Metrics
from sbic.runtime.publisher import MeteredRedirector
from sbic.wire.assignments import AssignmentId, encode_lease, encode_request, parse_assignment
from tests.stages.assigning import AssigningInstance
from tests.stages.simulated.log import SimulatedRecord
from tests.stages.simulated.project import SEAL

SETTINGS = Settings(partitions=1)
TOPIC = Topics(SETTINGS).assignments.name


class Stalled:
    """An instance with two requests of ann in flight, at the offsets 7 and 8."""

    def __init__(self, rules: Rules) -> None:
        self.assigning = AssigningInstance(rules, partitions=1)
        self.assigning.describe([{"task": f"t{number}"} for number in range(1, 6)])
        self.leases = self.assigning.leases
        nobody = cast(Any, None)  # nothing is rejected
        self.follower = AssignmentsFollower(SETTINGS, self.leases, SEAL, nobody)
        producer = cast(BatchProducer, SimpleNamespace())
        topics, metrics = Topics(SETTINGS), Metrics(SETTINGS.prefix)
        redirector = MeteredRedirector(topics, SEAL, metrics, DeadLetterLog())
        self.agent = PolicyAgent(
            self.assigning.stage, self.follower, topics, producer, metrics, redirector
        )

    def answer(self) -> Outbox:
        """What it makes of the requests."""
        group = RequestGroup()
        requests: Any = [SimulatedRecord(offset, 0, encode_request("ann")) for offset in (7, 8)]
        self.assigning.stage.answer(0, requests, 0, group)
        return self.agent.pack(group).changelog

    async def read(self, *values: bytes | None) -> None:
        """Read this on the assignments topic."""
        records: Any = [
            SimulatedRecord(0, 0, value, None, [SEAL.header(TOPIC, 0, value)], TOPIC)
            for value in values
        ]
        await self.follower.learn(0, records)


def values(outbox: Outbox) -> list[bytes | None]:
    return [row.value for row in outbox.get((TOPIC, 0), ())]


async def test_what_is_dropped_is_answered_when_the_request_is_read_again() -> None:
    stalled = Stalled(Rules())
    outbox = stalled.answer()
    assert len(values(outbox)) == len(stalled.leases) == 2
    assert values(stalled.answer()) == []
    stalled.agent.drop(outbox)
    assert len(stalled.leases) == 0
    assert len(values(stalled.answer())) == 2


@pytest.mark.parametrize("is_read_first", [True, False])
async def test_what_another_has_answered_meanwhile_stays_so(is_read_first: bool) -> None:
    stalled = Stalled(Rules())
    outbox = stalled.answer()
    meanwhile = encode_lease("ann", "t5", AssignmentId(0, 7, 0), "uncertainty", 0, 10**15)
    if is_read_first:
        await stalled.read(meanwhile)
    stalled.agent.drop(outbox)
    await stalled.read(meanwhile)
    assert list(stalled.leases.of("ann")) == ["t5"]
    (again,) = values(stalled.answer())
    assert parse_assignment(again).id == AssignmentId(0, 8, 0)
    assert parse_assignment(again).task != "t5"


async def test_what_had_reached_the_topic_after_all_stays_so() -> None:
    stalled = Stalled(Rules())
    outbox = stalled.answer()
    first, _ = values(outbox)
    await stalled.read(first)
    stalled.agent.drop(outbox)
    assert list(stalled.leases.of("ann")) == [parse_assignment(first).task]
    (again,) = values(stalled.answer())
    assert parse_assignment(again).id == AssignmentId(0, 8, 0)


async def test_the_end_of_a_lease_is_told_later_and_a_label_that_is_a_request_answered() -> None:
    stalled = Stalled(Rules(assign_on_label=True))
    given, _ = values(stalled.answer())
    task = parse_assignment(given).task
    assert task is not None
    stalled.assigning.hand_in("ann", task, 1)
    group = RequestGroup()
    group.given = stalled.assigning.last.given
    outbox = stalled.agent.pack(group).changelog
    ended, _ = values(outbox)
    stalled.agent.drop(outbox)
    filling = stalled.agent.groups.filling
    stalled.assigning.stage.take_over({0}, 0, filling)
    told, again = values(stalled.agent.pack(filling).changelog)
    assert told == ended
    assert parse_assignment(again).id == AssignmentId(0, 0, 0, "label")
