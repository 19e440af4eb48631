"""Which records are published in which step, and so what a crash between two steps leaves."""

import numpy as np
from aiokafka import ConsumerRecord
from orjson import loads

from pipeline.agents.group import Group
from pipeline.agents.publisher import Publisher
from pipeline.agents.redirector import Redirector
from pipeline.agents.telemetry.dead_letter_log import DeadLetterLog
from pipeline.agents.telemetry.metrics import Metrics
from pipeline.agents.telemetry.traces import NoExport
from pipeline.batched.producer import BatchProducer, Outbox
from pipeline.classes import SIGNS
from pipeline.inference.engine.engine import Engine
from pipeline.partitioner import partition_of
from pipeline.records.columns import MOST
from pipeline.records.labels import encode_label
from pipeline.records.votes import Votes, encode_votes
from pipeline.settings import Settings
from pipeline.stages.crowd import Crowd
from pipeline.stages.exchange import Exchange
from pipeline.stages.judge import Ends, Judge
from pipeline.stages.task_stage import TaskStage
from pipeline.stages.worker_stage import WorkerStage
from pipeline.topics import Topics

SETTINGS = Settings(partitions=2)
TOPICS = Topics(SETTINGS)
ANN = partition_of(b"ann", 2)
ELSEWHERE = 1 - ANN


class Joined:
    """The stages of one instance, and what publishes their results."""

    def __init__(self) -> None:
        crowd = Crowd(Engine("fast-sbic"), SIGNS, SETTINGS.partitions)
        judge = Judge(crowd, Ends(SETTINGS.partitions, at=MOST))
        self.workers = WorkerStage(crowd, judge)
        tasks = TaskStage(crowd, judge)
        for partition in range(SETTINGS.partitions):
            self.workers.open(partition)
            self.workers.ready(partition)
            tasks.open(partition)
        tasks.ready(range(SETTINGS.partitions), generation=1)
        list(tasks.facts())  # as if they were published
        self.tasks = tasks
        producer = BatchProducer({}, "crowd")
        self.is_stale = False
        metrics = Metrics(SETTINGS.prefix)
        self.publisher = Publisher(
            tasks,
            Exchange(tasks),
            TOPICS,
            producer,
            metrics,
            Redirector(TOPICS, metrics, DeadLetterLog()),
            self._mark_stale,
            NoExport(),
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
    owner, group = Joined(), Group()
    bad, misplaced = b"rubbish", encode_label("t1", "ann", 1)
    labels = [record(0, bad), record(1, misplaced)]
    owner.workers.take(ELSEWHERE, labels, group.taken[ELSEWHERE])
    publication = owner.publisher.pack(group)
    assert values(publication.before) == {
        (TOPICS.dead_letters.name, ELSEWHERE): [bad],
        (TOPICS.labels.name, ANN): [misplaced],
    }
    assert list(publication.changelog) == [(TOPICS.answers.name, ELSEWHERE)]
    assert not publication.outputs


async def test_answers_are_out_before_votes_and_posteriors() -> None:
    owner, group = Joined(), Group()
    owner.workers.take(ANN, [record(0, encode_label("t1", "ann", 1))], group.taken[ANN])
    publication = owner.publisher.pack(group)
    home = partition_of(b"t1", 2)
    assert not publication.before
    assert list(publication.changelog) == [(TOPICS.answers.name, ANN)]
    assert set(publication.outputs) == {
        (TOPICS.votes.name, home),
        (TOPICS.posteriors.name, home),
        (TOPICS.workers.name, ANN),
    }


async def test_the_state_is_stale_once_votes_are_not_published_but_not_for_later_outputs() -> None:
    owner, group = Joined(), Group()
    owner.workers.take(ANN, [record(0, encode_label("t1", "ann", 1))], group.taken[ANN])
    late = owner.publisher.pack(group).outputs
    votes = late.pop((TOPICS.votes.name, partition_of(b"t1", 2)))
    late.add(TOPICS.estimates.name, 0, *votes)
    owner.publisher.drop(late)
    assert not owner.is_stale
    crowd = owner.publisher.crowd
    assert owner.publisher.withheld_tasks.take() == crowd.number_tasks(["t1"])
    assert owner.publisher.withheld_workers.take() == crowd.number_workers(["ann"])
    owner.publisher.drop(Outbox({(TOPICS.votes.name, 0): votes}))
    assert owner.is_stale


def votes(offset: int) -> bytes:
    """A vote for t1 of a worker who is elsewhere."""
    one = np.array([1], "<i2"), np.array([offset]), np.array([0]), np.array([0.5])
    return encode_votes(Votes(ELSEWHERE, ["t1"], [f"w{offset}"], *one, np.empty((1, 0))))


async def test_a_task_is_published_only_when_all_of_it_is_restored() -> None:
    owner, home = Joined(), partition_of(b"t1", 2)
    owner.workers.close(ELSEWHERE)
    owner.tasks.close(home)
    owner.tasks.open(home)
    place = TOPICS.posteriors.name, home
    for offset in range(2):
        owner.tasks.restore(home, [(0, votes(offset))])
        publication = owner.publisher.pack(Group())
        assert place not in publication.changelog
        assert place not in publication.outputs
    group = Group()
    group.tasks.update(owner.tasks.ready({home}, generation=2).tolist())
    [row] = owner.publisher.pack(group).outputs[place]
    assert loads(row.value or b"")["labels"] == 2
