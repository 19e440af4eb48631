"""What a crash between two requests to Kafka leaves behind of labels that come to no vote."""

from aiokafka import ConsumerRecord

from pipeline.agents.metrics import Metrics
from pipeline.agents.worker_agent import LabelGroup, WorkerAgent
from pipeline.batched.producer import BatchProducer
from pipeline.inference.algorithm import Prior
from pipeline.inference.one_coin import OneCoin
from pipeline.partitioner import partition_of
from pipeline.records.labels import encode_label
from pipeline.settings import Settings
from pipeline.stages.task_view import TaskView
from pipeline.stages.worker_stage import WorkerStage
from pipeline.topics import Topics

SETTINGS = Settings(partitions=2)
TOPICS = Topics(SETTINGS)
ANN = partition_of(b"ann", 2)
ELSEWHERE = 1 - ANN
VALUES = [b"rubbish", encode_label("t1", "ann", 1)]


def agent() -> WorkerAgent:
    view = TaskView(OneCoin(Prior()), Prior().log_odds, SETTINGS.partitions)
    return WorkerAgent(WorkerStage(view), TOPICS, BatchProducer([], "worker"), Metrics())


def record(offset: int) -> ConsumerRecord:
    value = VALUES[offset]
    topic = TOPICS.labels.name
    return ConsumerRecord(topic, ELSEWHERE, offset, 0, 0, b"ann", value, None, 3, len(value), [])


async def test_bad_and_forwarded_labels_are_out_before_the_answers_say_that_they_were_taken() -> (
    None
):
    owner = agent()
    owner.open(ELSEWHERE)
    group = LabelGroup()
    owner.stage.take(ELSEWHERE, [record(0), record(1)], group[ELSEWHERE])
    parcel = owner.pack(group)
    bad, forwarded = (TOPICS.dead_letters.name, ELSEWHERE), (TOPICS.labels.name, ANN)
    assert {place: [row[1] for row in rows] for place, rows in parcel.ahead.items()} == {
        bad: [VALUES[0]],
        forwarded: [VALUES[1]],
    }
    assert list(parcel.first) == [(TOPICS.answers.name, ELSEWHERE)]
    assert not parcel.then
