"""Which records are published in which step, and so what a crash between two steps leaves."""

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
from aiokafka import ConsumerRecord
from orjson import loads

from sbic.classes import SIGNS
from sbic.engine.engine import Engine
from sbic.instance.crowd import Crowd
from sbic.instance.instance import TASKS_AT_ONCE, Instance
from sbic.instance.publication import Group, Outbox, Throttle, TopicNames
from sbic.instance.requests import Rules
from sbic.instance.taken import Taken
from sbic.instance.tasks import TaskStage
from sbic.instance.workers import WorkerStage
from sbic.project.settings import Settings
from sbic.project.topics import Topics
from sbic.runtime.agents import PolicyAgent, RequestGroup
from sbic.runtime.faust.producer import BatchProducer
from sbic.runtime.followers import AssignmentsFollower, EstimatesFollower
from sbic.runtime.logs import DeadLetterLog
from sbic.runtime.metrics import Metrics
from sbic.runtime.publisher import MeteredRedirector, Publisher, Rejects
from sbic.runtime.traces import SpanExporter
from sbic.wire.assignments import AssignmentId, encode_lease, encode_request, parse_assignment
from sbic.wire.columns import COLUMNS, Names
from sbic.wire.labels import encode_label
from sbic.wire.partitions import partition_of
from sbic.wire.votes import Votes, encode_votes
from tests.stages.assigning import AssigningInstance
from tests.stages.simulated.log import SimulatedRecord
from tests.stages.simulated.project import SEAL

SETTINGS = Settings(partitions=2)
TOPICS = Topics(SETTINGS)
ANN = partition_of(b"ann", 2)
ELSEWHERE = 1 - ANN


class Joined:
    """The stages of one instance, and what publishes their results."""

    def __init__(self) -> None:
        crowd = Crowd(Engine("fast-sbic"), SIGNS, SETTINGS.partitions)
        self.workers = WorkerStage(crowd, SEAL)
        tasks = TaskStage(crowd)
        for partition in range(SETTINGS.partitions):
            self.workers.open(partition)
            self.workers.ready(partition)
            tasks.open(partition)
        tasks.ready(range(SETTINGS.partitions), generation=1)
        list(tasks.facts())  # as if they were published
        self.tasks = tasks
        names = TopicNames(*(getattr(TOPICS, name).name for name in TopicNames._fields))
        self.instance: Instance[ConsumerRecord] = Instance(
            self.workers, tasks, SEAL, names, lambda seconds: self.publisher.wake(seconds)
        )
        producer = BatchProducer(SETTINGS, "crowd")
        self.is_stale = False
        metrics = Metrics(SETTINGS.prefix)
        self.publisher = Publisher(
            self.instance,
            producer,
            metrics,
            MeteredRedirector(TOPICS, SEAL, metrics, DeadLetterLog()),
            self._mark_stale,
            SpanExporter(),
        )

    def _mark_stale(self) -> None:
        self.is_stale = True


def record(offset: int, value: bytes) -> ConsumerRecord:
    topic = TOPICS.labels.name
    return ConsumerRecord(topic, ELSEWHERE, offset, 0, 0, b"ann", value, None, 3, len(value), [])


def values(outbox: Outbox) -> dict[tuple[str, int], list[bytes | None]]:
    return {place: [row.value for row in rows] for place, rows in outbox.items()}


async def test_bad_and_forwarded_labels_are_out_before_the_answers_say_that_they_were_taken() -> (
    None
):
    owner, group = Joined(), Group[ConsumerRecord]()
    bad, misplaced = b"rubbish", encode_label("t1", "ann", 1)
    labels = [record(0, bad), record(1, misplaced)]
    owner.workers.take({ELSEWHERE: labels}, group.taken)
    publication = owner.publisher.pack(group)
    assert values(publication.before) == {
        (TOPICS.dead_letters.name, ELSEWHERE): [bad],
        (TOPICS.labels.name, ANN): [misplaced],
    }
    assert list(publication.changelog) == [(TOPICS.answers.name, ELSEWHERE)]
    assert not publication.outputs


async def test_a_dead_letter_is_counted_once_it_is_published() -> None:
    owner, group = Joined(), Group[ConsumerRecord]()
    owner.workers.take({ELSEWHERE: [record(0, b"rubbish")]}, group.taken)
    publication = owner.publisher.pack(group)
    metrics = owner.publisher.metrics
    assert metrics.dead_letters.labels("not-json")._value.get() == 0
    publication.published({}, 0.0)
    assert metrics.dead_letters.labels("not-json")._value.get() == 1


async def test_answers_are_out_before_evidence_and_posteriors() -> None:
    owner, group = Joined(), Group[ConsumerRecord]()
    owner.workers.take({ANN: [record(0, encode_label("t1", "ann", 1))]}, group.taken)
    publication = owner.publisher.pack(group)
    home = partition_of(b"t1", 2)
    assert not publication.before
    assert list(publication.changelog) == [(TOPICS.answers.name, ANN)]
    assert set(publication.outputs) == {
        (TOPICS.evidence.name, home),
        (TOPICS.posteriors.name, home),
        (TOPICS.workers.name, ANN),
    }


async def test_votes_on_tasks_of_another_instance_are_sent_to_it() -> None:
    owner, group = Joined(), Group[ConsumerRecord]()
    home = partition_of(b"t1", 2)
    owner.tasks.close(home)
    owner.workers.take({ANN: [record(0, encode_label("t1", "ann", 1))]}, group.taken)
    outputs = owner.publisher.pack(group).outputs
    assert (TOPICS.votes.name, home) in outputs
    assert (TOPICS.evidence.name, home) not in outputs


async def test_an_own_vote_that_comes_once_more_from_the_topic_is_not_counted_again() -> None:
    owner, group = Joined(), Group[ConsumerRecord]()
    owner.workers.take({ANN: [record(0, encode_label("t1", "ann", 1))]}, group.taken)
    home = partition_of(b"t1", 2)
    [row] = owner.publisher.pack(group).outputs[TOPICS.evidence.name, home]
    counted = owner.tasks.count(home, [row.value])
    assert (counted.votes, counted.fenced, counted.new) == (1, 1, [])


async def test_the_state_is_stale_once_evidence_is_not_published_but_not_for_later_outputs() -> (
    None
):
    owner, group = Joined(), Group[ConsumerRecord]()
    owner.workers.take({ANN: [record(0, encode_label("t1", "ann", 1))]}, group.taken)
    late = owner.publisher.pack(group).outputs
    evidence = late.pop((TOPICS.evidence.name, partition_of(b"t1", 2)))
    late.add(TOPICS.estimates.name, 0, *evidence)
    owner.publisher.drop(late)
    assert not owner.is_stale
    crowd = owner.instance.crowd
    assert owner.instance.withheld_tasks.take() == crowd.number_tasks(["t1"])
    assert owner.instance.withheld_workers.take() == crowd.number_workers(["ann"])
    owner.publisher.drop(Outbox({(TOPICS.evidence.name, 0): evidence}))
    assert owner.is_stale


def votes(offset: int) -> bytes:
    """A vote for t1 of a worker who is elsewhere."""
    one = np.array([1], "<i2"), np.array([offset]), np.array([0]), np.array([0.5])
    return encode_votes(
        Votes(ELSEWHERE, Names.of(["t1"]), Names.of([f"w{offset}"]), *one, np.empty((1, 0)))
    )


async def test_a_task_is_published_only_when_all_of_it_is_restored() -> None:
    owner, home = Joined(), partition_of(b"t1", 2)
    owner.workers.close(ELSEWHERE)
    owner.tasks.close(home)
    owner.tasks.open(home)
    place = TOPICS.posteriors.name, home
    for offset in range(2):
        owner.tasks.restore(home, [(0, votes(offset))])
        publication = owner.publisher.pack(Group[ConsumerRecord]())
        assert place not in publication.changelog
        assert place not in publication.outputs
    owner.tasks.ready({home}, generation=2)
    [row] = owner.publisher.pack(Group[ConsumerRecord]()).outputs[place]
    assert loads(row.value or b"")["labels"] == 2


async def test_many_tasks_are_published_in_several_groups() -> None:
    owner = Joined()
    crowd, publisher = owner.tasks.crowd, owner.publisher
    tasks = crowd.number_tasks([f"t{number}" for number in range(2 * TASKS_AT_ONCE + 10)])
    owner.instance.publish_tasks(tasks)
    sizes, published = [], set[bytes | None]()
    while publisher.groups.notified.is_set():
        outputs = publisher.groups._take().publication.changelog  # nothing else is in it
        rows = [row for (topic, _), rows in outputs.items() for row in rows if "poster" in topic]
        sizes.append(len(rows))
        published |= {row.key for row in rows}
    assert sizes == [TASKS_AT_ONCE, TASKS_AT_ONCE, 10]
    assert published == {f"t{number}".encode() for number in tasks.tolist()}


# An instance receives the estimates of a partition that it has released.


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


# Changes are published at intervals that grow with what a publication costs.


async def test_the_next_publication_is_due_after_the_interval_and_is_announced() -> None:
    announced, loop = asyncio.Event(), asyncio.get_running_loop()
    throttle = Throttle(0.01, 10.0, lambda seconds: loop.call_later(seconds, announced.set))
    assert throttle.is_due
    throttle.published(spent=0.0)
    assert not throttle.is_due
    async with asyncio.timeout(60):
        await announced.wait()
    assert throttle.is_due


async def test_expensive_publications_take_at_most_a_share_of_the_time() -> None:
    throttle = Throttle(0.01, 10.0, lambda _: None)
    now = asyncio.get_running_loop().time()
    throttle.published(spent=0.05)
    assert 4 < throttle.due - now < 6
    throttle.published(spent=100.0)
    assert 9 < throttle.due - now < 11


# An instance outside the group takes back the assignments that it had not published.


ONE_PARTITION = Settings(partitions=1)
TOPIC = Topics(ONE_PARTITION).assignments.name


class Stalled:
    """An instance with two requests of ann in flight, at the offsets 7 and 8."""

    def __init__(self, rules: Rules) -> None:
        self.assigning = AssigningInstance(rules, partitions=1)
        self.assigning.describe([{"task": f"t{number}"} for number in range(1, 6)])
        self.leases = self.assigning.leases
        nobody = cast(Any, None)  # nothing is rejected
        self.follower = AssignmentsFollower(ONE_PARTITION, self.leases, SEAL, nobody)
        producer = cast(BatchProducer, SimpleNamespace())
        topics, metrics = Topics(ONE_PARTITION), Metrics(ONE_PARTITION.prefix)
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

    async def read(self, *values_in: bytes | None) -> None:
        """Read this on the assignments topic."""
        records: Any = [
            SimulatedRecord(0, 0, value, None, [SEAL.header(TOPIC, 0, value)], TOPIC)
            for value in values_in
        ]
        await self.follower.learn(0, records)


def values_in(outbox: Outbox) -> list[bytes | None]:
    return [row.value for row in outbox.get((TOPIC, 0), ())]


async def test_what_is_dropped_is_answered_when_the_request_is_read_again() -> None:
    stalled = Stalled(Rules())
    outbox = stalled.answer()
    assert len(values_in(outbox)) == len(stalled.leases) == 2
    assert values_in(stalled.answer()) == []
    stalled.agent.drop(outbox)
    assert len(stalled.leases) == 0
    assert len(values_in(stalled.answer())) == 2


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
    (again,) = values_in(stalled.answer())
    assert parse_assignment(again).id == AssignmentId(0, 8, 0)
    assert parse_assignment(again).task != "t5"


async def test_what_had_reached_the_topic_after_all_stays_so() -> None:
    stalled = Stalled(Rules())
    outbox = stalled.answer()
    first, _ = values_in(outbox)
    await stalled.read(first)
    stalled.agent.drop(outbox)
    assert list(stalled.leases.of("ann")) == [parse_assignment(first).task]
    (again,) = values_in(stalled.answer())
    assert parse_assignment(again).id == AssignmentId(0, 8, 0)


async def test_the_end_of_a_lease_is_told_later_and_a_label_that_is_a_request_answered() -> None:
    stalled = Stalled(Rules(assign_on_label=True))
    given, _ = values_in(stalled.answer())
    task = parse_assignment(given).task
    assert task is not None
    stalled.assigning.hand_in("ann", task, 1)
    group = RequestGroup()
    group.given = stalled.assigning.last.given
    outbox = stalled.agent.pack(group).changelog
    ended, _ = values_in(outbox)
    stalled.agent.drop(outbox)
    filling = stalled.agent.groups.filling
    stalled.assigning.stage.take_over({0}, 0, filling)
    told, again = values_in(stalled.agent.pack(filling).changelog)
    assert told == ended
    assert parse_assignment(again).id == AssignmentId(0, 0, 0, "label")
