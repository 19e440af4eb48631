"""Bad input does no harm: each bad record among good ones, on one instance."""

from collections import Counter
from dataclasses import dataclass

import numpy as np
import pytest
from aiokafka import AIOKafkaProducer, ConsumerRecord
from orjson import loads

from sbic.client import Posterior
from sbic.local.broker import EmbeddedBroker
from sbic.wire.changelogs import Answers, Piece, VotesFor, encode_answers
from sbic.wire.columns import FORMAT, Names
from sbic.wire.labels import encode_label
from sbic.wire.partitions import partition_of
from sbic.wire.votes import Votes, encode_votes
from tests.agents.kafka import ProjectOnBroker, labels_in, project
from tests.instances import instance

PARTITIONS = 4
Place = tuple[int, int]  # partition and offset

REJECTED: dict[str, tuple[bytes | None, str]] = {
    "not JSON": (b"task=t1 worker=w1 label=1", "not-json"),
    "no bytes": (b"", "not-json"),
    "invalid UTF-8": (b'{"task": "\xff\xfe", "worker": "w1", "label": 1}', "not-json"),
    "half a surrogate pair": (rb'{"task": "\ud800", "worker": "w1", "label": 1}', "not-json"),
    "nested too deep": (b"[" * 100_000, "not-json"),
    "900 kB of rubbish": (b"\x00\xff" * 450_000, "not-json"),
    "NaN": (b'{"task": "t1", "worker": "w1", "label": NaN}', "not-json"),
    "the JSON value null": (b"null", "not-object"),
    "a list": (b'["t1", "w1", 1]', "not-object"),
    "a string": (b'"t1"', "not-object"),
    "no task": (b'{"worker": "w1", "label": 1}', "missing-field"),
    "no worker": (b'{"task": "t1", "label": 1}', "missing-field"),
    "no label": (b'{"task": "t1", "worker": "w1"}', "missing-field"),
    "a label of 2": (b'{"task": "t1", "worker": "w1", "label": 2}', "bad-label"),
    "a label of true": (b'{"task": "t1", "worker": "w1", "label": true}', "bad-label"),
    "a label in quotes": (b'{"task": "t1", "worker": "w1", "label": "1"}', "bad-label"),
    "a label nested 1,020 deep": (
        b'{"task": "t1", "worker": "w1", "label": %s%s}' % (b"[" * 1020, b"]" * 1020),
        "bad-label",
    ),
    "a label of 1.0": (b'{"task": "t1", "worker": "w1", "label": 1.0}', "bad-label"),
    "an empty task": (b'{"task": "", "worker": "w1", "label": 1}', "bad-id"),
    "an empty worker": (b'{"task": "t1", "worker": "", "label": 1}', "bad-id"),
    "a number as a task": (b'{"task": 1, "worker": "w1", "label": 1}', "bad-id"),
    "a task of 300 bytes": (encode_label("t" * 300, "w1", 1), "bad-id"),
    "a worker of 150 characters and 300 bytes": (encode_label("t1", "é" * 150, 1), "bad-id"),
    "a null value": (None, "null-value"),
}


@dataclass
class Odd:
    """A label that is unusual, and counts: its record, and whether it has to be forwarded."""

    key: bytes | None
    partition: int
    value: bytes
    forwarded: bool


ANN = partition_of(b"ann", PARTITIONS)
ELSEWHERE = (ANN + 1) % PARTITIONS
LONG = b'{"task":"a long note","worker":"ann","label":1,"note":"%s"}' % (b"x" * 900_000)
LONGER = LONG.replace(b"a long note", b"a long note elsewhere")

ODD: dict[str, Odd] = {
    "a null key": Odd(None, ELSEWHERE, encode_label("a null key", "ann", 1), True),
    "a null key that is lucky": Odd(
        None, ANN, encode_label("a null key that is lucky", "ann", 1), False
    ),
    "a wrong key": Odd(
        b"eve", partition_of(b"eve", PARTITIONS), encode_label("a wrong key", "ann", 1), True
    ),
    "a wrong partition": Odd(b"ann", ELSEWHERE, encode_label("a wrong partition", "ann", 1), True),
    "unknown fields": Odd(
        b"ann",
        ANN,
        b'{"at": [1, {}], "task": "unknown fields", "label": 1, "worker": "ann"}',
        False,
    ),
    "a long note": Odd(b"ann", ANN, LONG, False),
    "a long note elsewhere": Odd(b"ann", ELSEWHERE, LONGER, True),
    "t" * 256: Odd(b"ann", ANN, encode_label("t" * 256, "ann", 1), False),
}
assert partition_of(b"eve", PARTITIONS) != ANN

STRANGE = b"strange"
VOTES = encode_votes(
    Votes(
        0,
        Names.of(["t"]),
        Names.of(["w"]),
        np.array([1], "<i2"),
        np.array([0]),
        np.array([0]),
        np.array([0.5]),
        np.empty((1, 0)),
    )
)
STRANGE_VOTES = [
    b"not JSON",
    b"null",
    None,
    b'{"source": 0, "votes": [["t", "w", 1, 0.5, 1, 0, 0]]}',
    VOTES[:-1],
    VOTES + b"0",
    VOTES.replace(b'"format":%d' % FORMAT, b'"format":1'),
    VOTES.replace(b'"source":0', b'"source":"0"'),
    VOTES.replace(b'"source":0', b'"source":8'),
    VOTES.replace(b'"tasks":1', b'"tasks":2'),
    VOTES.replace(b'"rows":1', b'"rows":2'),
    VOTES[:-1] + b"\xff",
    VOTES.replace(b'"width":0', b'"width":-1'),
    VOTES[: -4 * 8] + b"\x07" + VOTES[-4 * 8 + 1 :],  # there is no class 7
]

POSTERIOR = (
    b'{"task":"strange","log_odds":0.5,"probability":0.5,"prediction":1,"labels":1,'
    b'"status":"open","sources":{"0":1},"updated_at":0}'
)
STRANGE_POSTERIORS = [
    b"not JSON",
    b"[]",
    b"null",
    None,
    b'{"task": "strange"}',
    POSTERIOR.replace(b"0.5", b"null"),
    POSTERIOR.replace(b'"0":1', b'"0":"1"'),
    POSTERIOR.replace(b'"0":1', b'"0":null'),
    POSTERIOR.replace(b'"labels":1', b'"labels":18446744073709551615'),
    POSTERIOR.replace(b'"labels":1', b'"labels":-1'),
    POSTERIOR.replace(b'"strange"', b'""'),
]

ANSWERS = encode_answers(Answers([Piece(1, 0)], [VotesFor(0, VOTES)], []))
STRANGE_ANSWERS = [
    b"not JSON",
    b"null",
    None,
    b"{}",
    ANSWERS.replace(b"[[1,0]]", b"[]"),
    ANSWERS.replace(b"[[1,0]]", b"[[1]]"),
    ANSWERS.replace(b"[[1,0]]", b'[["1",0]]'),
    ANSWERS.replace(b'["t"]', b"[ 7 ]"),
    ANSWERS[:-1],
]


IN_EACH_OTHER = len(STRANGE_ANSWERS) + len(STRANGE_VOTES)
AT_ONCE = len(STRANGE_VOTES) + IN_EACH_OTHER  # of votes and estimates
CHANGELOGS = "answers", "evidence"


@dataclass
class BadRecordsAftermath:
    """What the topics and metrics have when all is dealt with."""

    bad: dict[str, Place]
    strange_votes: list[Place]
    dead: dict[tuple[str, int, int], ConsumerRecord]
    posteriors: dict[str, Posterior]
    metrics: dict[str, float]
    after_a_restart: dict[str, Posterior]


async def send_among_labels(here: ProjectOnBroker, producer: AIOKafkaProducer) -> dict[str, Place]:
    """Send each bad record with a good label before and after it; where the bad ones are."""
    places = {}
    for number, (name, (value, _)) in enumerate(REJECTED.items()):
        worker = f"w{number}"
        home = partition_of(worker.encode(), PARTITIONS)
        before, after = (encode_label(f"{when} {name}", worker, 1) for when in ("before", "after"))
        for record in (before, value, after):
            sent = await producer.send_and_wait(
                here.topics.labels.name, record, key=worker.encode(), partition=home
            )
            if record is value:
                places[name] = sent.partition, sent.offset
    return places


def posteriors_in(records: list[ConsumerRecord]) -> dict[str, Posterior]:
    return {record.key.decode(): loads(record.value) for record in records if record.key != STRANGE}


def by_origin(
    here: ProjectOnBroker, records: list[ConsumerRecord]
) -> dict[tuple[str, int, int], ConsumerRecord]:
    """Dead letters by the bad record's topic without its prefix, partition and offset."""
    letters = {}
    for letter in records:
        headers = {name: value.decode() for name, value in letter.headers}
        topic = headers["__connect.errors.topic"].removeprefix(f"{here.settings.prefix}.")
        partition, offset = (
            headers[f"__connect.errors.{name}"] for name in ("partition", "offset")
        )
        letters[topic, int(partition), int(offset)] = letter
    return letters


async def until_counted(here: ProjectOnBroker, labels: int) -> dict[str, Posterior]:
    def are_counted(records: list[ConsumerRecord]) -> bool:
        return labels_in(posteriors_in(records)) >= labels

    return posteriors_in(await here.until_read(here.topics.posteriors.name, are_counted))


@pytest.fixture(scope="module")
async def aftermath(broker: EmbeddedBroker) -> BadRecordsAftermath:
    here = await project(broker, partitions=PARTITIONS)
    # once put out of the group, an instance reads the changelogs and counts what is bad there
    env = {"SBIC_PARTITIONS": str(PARTITIONS), "SBIC_SESSION_SECONDS": "60"}
    expected = 2 * len(REJECTED) + len(ODD)
    with instance(broker.url, here.settings.prefix, **env) as running:
        running.wait_ready()
        async with here.producer() as producer:
            bad = await send_among_labels(here, producer)
            for odd in ODD.values():
                await producer.send_and_wait(
                    here.topics.labels.name, odd.value, key=odd.key, partition=odd.partition
                )
            strange_votes = []
            for value in STRANGE_VOTES:
                sent = await producer.send_and_wait(
                    here.topics.votes.name, value, key=STRANGE, partition=0
                )
                strange_votes.append((sent.partition, sent.offset))
            for value in STRANGE_POSTERIORS:
                await producer.send_and_wait(
                    here.topics.posteriors.name, value, key=STRANGE, partition=0
                )
            for topic in (here.topics.answers, here.topics.evidence, here.topics.estimates):
                for value in (*STRANGE_ANSWERS, *STRANGE_VOTES):
                    await producer.send_and_wait(topic.name, value, key=STRANGE, partition=0)
        posteriors = await until_counted(here, expected)
        await here.until_read(
            here.topics.dead_letters.name,
            lambda records: len(by_origin(here, records)) >= len(REJECTED) + AT_ONCE,
        )
        metrics = running.metrics_with('sbic_dead_letters_total{reason="not-ours"}', AT_ONCE)
        assert running.terminate() == 0
    with instance(broker.url, here.settings.prefix, **env) as running:
        running.wait_ready()
        await here.send([("after a restart", "ann", 1)])
        after_a_restart = await until_counted(here, expected + 1)
        assert running.terminate() == 0
    dead = by_origin(here, await here.read(here.topics.dead_letters.name))
    return BadRecordsAftermath(bad, strange_votes, dead, posteriors, metrics, after_a_restart)


def reason_of(letter: ConsumerRecord) -> str:
    reason: bytes = dict(letter.headers)["__connect.errors.exception.class.name"]
    return reason.decode()


@pytest.mark.parametrize("name", REJECTED)
def test_a_bad_record_goes_to_the_dead_letters_as_it_came(
    aftermath: BadRecordsAftermath, name: str
) -> None:
    value, reason = REJECTED[name]
    letter = aftermath.dead["labels", *aftermath.bad[name]]
    assert letter.value == value
    assert letter.key == f"w{list(REJECTED).index(name)}".encode()
    assert reason_of(letter) == reason
    assert dict(letter.headers)["__connect.errors.exception.message"]


@pytest.mark.parametrize("name", REJECTED)
def test_the_labels_before_and_after_it_are_counted(
    aftermath: BadRecordsAftermath, name: str
) -> None:
    assert aftermath.posteriors[f"before {name}"]["labels"] == 1
    assert aftermath.posteriors[f"after {name}"]["labels"] == 1


@pytest.mark.parametrize("task", ODD)
def test_an_odd_label_counts_all_the_same(aftermath: BadRecordsAftermath, task: str) -> None:
    assert aftermath.posteriors[task]["labels"] == 1
    assert aftermath.posteriors[task]["sources"].keys() == {str(ANN)}


def test_strange_votes_go_to_the_dead_letters(aftermath: BadRecordsAftermath) -> None:
    letters = [aftermath.dead["votes", *place].value for place in aftermath.strange_votes]
    assert letters == STRANGE_VOTES


def test_strange_votes_posteriors_and_answers_change_nothing_even_after_a_restart(
    aftermath: BadRecordsAftermath,
) -> None:
    around = {f"{when} {name}" for when in ("before", "after") for name in REJECTED}
    assert aftermath.posteriors.keys() == around | ODD.keys()
    new = aftermath.after_a_restart.pop("after a restart")
    assert new["labels"] == 1
    assert aftermath.after_a_restart == aftermath.posteriors


def test_strange_records_of_changelogs_are_dead_letters_once_they_are_read(
    aftermath: BadRecordsAftermath,
) -> None:
    found = Counter(topic for topic, _, _ in aftermath.dead)
    assert found["answers"] == found["evidence"] == found["estimates"] == IN_EACH_OTHER
    strange = [letter for place, letter in aftermath.dead.items() if place[0] != "labels"]
    assert {reason_of(letter) for letter in strange} == {"not-ours"}


def test_nothing_else_is_among_the_dead_letters(aftermath: BadRecordsAftermath) -> None:
    assert len(aftermath.dead) == len(REJECTED) + len(STRANGE_VOTES) + 3 * IN_EACH_OTHER


def test_the_metrics_tell_it_by_outcome_and_reason(aftermath: BadRecordsAftermath) -> None:
    metrics = aftermath.metrics
    assert metrics['sbic_labels_total{outcome="counted"}'] == 2 * len(REJECTED) + len(ODD)
    assert metrics['sbic_labels_total{outcome="rejected"}'] == len(REJECTED)
    forwarded = sum(odd.forwarded for odd in ODD.values())
    assert metrics['sbic_labels_total{outcome="forwarded"}'] == forwarded
    # changelogs are read by the next instance
    read = [letter for place, letter in aftermath.dead.items() if place[0] not in CHANGELOGS]
    for reason, count in Counter(map(reason_of, read)).items():
        assert metrics[f'sbic_dead_letters_total{{reason="{reason}"}}'] == count
