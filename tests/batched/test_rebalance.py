"""Around a rebalance each record is delivered in order, once or again, and none is skipped."""

import asyncio
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from faust.transport.drivers.aiokafka import Consumer
from faust.types import TP
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from sbic.runtime.faust.consumer import BatchConsumer, batch_of
from tests.examples import examples

PARTITIONS = [TP("labels", 0), TP("labels", 1), TP("votes", 0)]


class FetchPositions:
    """Positions as aiokafka keeps them: a fetch moves them, whatever becomes of the records."""

    def __init__(self) -> None:
        self.end = dict.fromkeys(PARTITIONS, 0)
        self.position = dict.fromkeys(PARTITIONS, 0)
        self.committed = dict.fromkeys(PARTITIONS, 0)

    def seek(self, tp: TP, offset: int) -> None:
        self.position[tp] = offset

    def fetch(self) -> dict[TP, list[Any]]:
        fetched = {
            tp: [
                SimpleNamespace(offset=offset, timestamp=0, timestamp_type=0)
                for offset in range(self.position[tp], self.end[tp])
            ]
            for tp in PARTITIONS
        }
        self.position.update(self.end)
        return {tp: records for tp, records in fetched.items() if records}


class FlowOfFaust(BatchConsumer):
    """The consumer, with Faust's own part of each step in the hands of the test."""

    should_stop = False

    def __init__(self, kafka: FetchPositions) -> None:
        self.finished, self.waiting, self.next_offset, self.sought = {}, {}, {}, {}
        self.left_out, self.gaps, self.read_to = set(), {}, {}
        self.rebalances, self.joined, self.flow_active = 0, False, False
        self.can_resume_flow, self.suspend_flow = asyncio.Event(), asyncio.Event()
        self.kafka = kafka
        self._thread = kafka  # type: ignore[assignment]
        self._buffered_partitions = set()
        self._read_offset = {}
        self.app = SimpleNamespace(consumer_generation_id=0, in_recovery=False)  # type: ignore[assignment]

    def _is_changelog_tp(self, tp: TP) -> bool:
        return False

    def assignment(self) -> set[TP]:
        return set(PARTITIONS)

    async def _wait_next_records(self, timeout: float) -> Any:  # noqa: ASYNC109
        return self.kafka.fetch(), None


class Rebalances(RuleBasedStateMachine):
    """Fetches, rebalances and recoveries of Faust, in any order in which they can come."""

    def __init__(self) -> None:
        super().__init__()
        self.kafka = FetchPositions()
        self.consumer = FlowOfFaust(self.kafka)
        self.queue: dict[TP, list[int]] = {tp: [] for tp in PARTITIONS}
        self.joined = False
        self.recovery: Iterator[None] = iter(())
        self.recovered = False

    @rule(tp=st.sampled_from(PARTITIONS), count=st.integers(1, 3))
    def records_arrive(self, tp: TP, count: int) -> None:
        self.kafka.end[tp] += count

    @rule(meanwhile=st.sampled_from(["nothing", "revoked", "revoked and resumed"]))
    def fetch(self, meanwhile: str = "nothing") -> None:
        async def fetch() -> None:
            async for _, message in self.consumer.getmany(1.0):
                assert self.joined
                assert self.recovered
                for tp, records in batch_of(message).parts.items():
                    self.queue[tp] += [record.offset for record in records]
                if meanwhile != "nothing":
                    self.partitions_are_revoked()
                if meanwhile == "revoked and resumed":
                    self.resume()

        asyncio.run(fetch())

    @rule()
    def partitions_are_revoked(self) -> None:
        self.joined = False
        self.consumer._forget(joined=False)
        self.consumer.flow_active = False
        for tp in PARTITIONS:
            self.kafka.committed[tp] += len(self.queue[tp])
            self.queue[tp].clear()

    @precondition(lambda self: not self.joined)
    @rule(reads_changelogs=st.booleans())
    def partitions_are_assigned(self, reads_changelogs: bool = True) -> None:
        self.joined, self.recovered = True, False
        self.consumer._forget(joined=True)
        self.kafka.position.update(self.kafka.committed)
        self.recovery = self.recover(reads_changelogs)

    @rule()
    def recovery_goes_on(self) -> None:
        """Also between a revocation and the next assignment, as nothing stops it then."""
        next(self.recovery, None)

    def recover(self, reads_changelogs: bool) -> Iterator[None]:
        if reads_changelogs:
            self.resume()
            yield
        begun, committed = self.consumer.rebalances, dict(self.kafka.committed)
        yield
        for tp, offset in committed.items():
            self.kafka.position[tp] = offset or self.kafka.position[tp]  # as aiokafka does
        self.end_seek(begun, committed)
        yield
        self.resume()
        self.recovered = True

    def end_seek(self, begun: int, committed: dict[TP, int]) -> None:
        now, self.consumer.rebalances = self.consumer.rebalances, begun

        async def seek(_consumer: Consumer) -> None:
            self.consumer.rebalances = now
            self.consumer._read_offset.update(committed)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Consumer, "perform_seek", seek)
            asyncio.run(self.consumer.perform_seek())

    def resume(self) -> None:
        for tp in PARTITIONS:  # as app.flow_control.resume() does
            self.queue[tp].clear()
        self.consumer.resume_flow()

    @invariant()
    def nothing_is_missing_between(self) -> None:
        for tp, handed_out in self.queue.items():
            begin = self.kafka.committed[tp]
            assert handed_out == list(range(begin, begin + len(handed_out)))

    def teardown(self) -> None:
        """Once there are no more rebalances, all that there is has been handed out."""
        if not self.joined:
            self.partitions_are_assigned()
        for _ in range(6):
            self.recovery_goes_on()
            self.fetch()
        for tp in PARTITIONS:
            assert self.queue[tp] == list(range(self.kafka.committed[tp], self.kafka.end[tp]))


TestRebalances = Rebalances.TestCase
TestRebalances.settings = settings(examples(300), stateful_step_count=30)
