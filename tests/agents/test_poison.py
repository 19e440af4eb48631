"""Records that anyone with write access can publish do no harm: each of them on a real broker.

It comes while an instance runs, and is read again by the next ones. Labels before and after it
count, each once, and what cannot be ours is among the dead letters.
"""

import json
import math
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from aiokafka import AIOKafkaProducer, ConsumerRecord

from sbic.client import Posterior
from sbic.engine.state import ELSEWHERE, Sums
from sbic.local.broker import EmbeddedBroker
from sbic.status.contents import EXPORTS, current_records
from sbic.wire.assignments import AssignmentId, encode_lease, encode_request
from sbic.wire.changelogs import Answers, Fact, Facts, Piece, VotesFor, encode_answers, encode_facts
from sbic.wire.columns import Names
from sbic.wire.estimates import Whole, encode_estimates
from sbic.wire.labels import encode_label
from sbic.wire.partitions import partition_of
from sbic.wire.tasks import encode_task
from sbic.wire.votes import Votes, encode_votes
from tests.agents.kafka import ProjectOnBroker, labels_in, last_posteriors, project
from tests.instances import RunningInstance, instance

PARTITIONS = 2
WORKERS = ["ann", "bob", "eve", "fay"]
BEFORE, AFTER = 40, 60  # labels of each worker
AHEAD = 25  # so far ahead a forged end is, and labels reach it later
FAR = 1_000_000  # they do not reach this: once they did, a forged label would stand for that one
HEADERS: dict[str, list[tuple[str, bytes]]] = {
    "a header of 500 kB": [("trace", b"7"), ("note", bytes(500_000))],
    "10,000 headers": [(f"h{number}", b"x" * 40) for number in range(10_000)],
}


def home_of(name: str) -> int:
    return partition_of(name.encode(), PARTITIONS)


def name_in(partition: int, kind: str) -> str:
    """A task or worker of a partition."""
    names = (f"{kind}{number}" for number in range(100))
    return next(name for name in names if home_of(name) == partition)


def votes(task: str, worker: str, offset: int, **changes: Any) -> bytes:
    """One vote, of the partition of its worker."""
    columns = np.array([1], "<i2"), np.array([offset]), np.array([7]), np.array([0.5])
    made = Votes(home_of(worker), Names.of([task]), Names.of([worker]), *columns, np.empty((1, 0)))
    return encode_votes(made._replace(**changes))


def poison_of_answers(partition: int, end: int) -> dict[str, bytes]:
    """On the answers of a partition of workers whose labels end there."""
    task, worker = name_in(partition, "forged"), name_in(partition, "w")
    beyond = votes(task, worker, end + FAR)
    here = votes(task, worker, 0)
    return {
        "an offset beyond the end": encode_answers(Answers([Piece(1, end + AHEAD)], [], [])),
        "a vote beyond the end": encode_answers(
            Answers([Piece(1, end + FAR)], [VotesFor(partition, beyond)], [])
        ),
        "an offset without end": encode_answers(Answers([Piece(1, 1 << 61)], [], [])),
        "for partition 999": encode_answers(Answers([Piece(1, 0)], [VotesFor(999, here)], [])),
        "of partition 999": encode_answers(
            Answers([Piece(1, 0)], [VotesFor(partition, votes(task, worker, 0, source=999))], [])
        ),
        "another version": encode_answers(Answers([Piece(1, end)], [], [])).replace(
            b'"format":', b'"format":9'
        ),
    }


def poison_of_votes(partition: int, ends: list[int]) -> dict[str, bytes]:
    """On the votes, or the evidence, of a partition of tasks."""
    task, worker = name_in(partition, "forged"), WORKERS[0]
    end = ends[home_of(worker)]
    return {
        "1e308": votes(task, worker, 0, votes=np.array([1e308])),
        "more than any label weighs": votes(task, worker, 0, votes=np.array([999.0])),
        "not a number": votes(task, worker, 0, votes=np.array([math.nan])),
        "a task id of 2 MB": votes("t" * (2 << 20), worker, 0),
        "a task of another partition": votes(name_in(1 - partition, "forged"), worker, 0),
        "a worker of another partition": votes(task, worker, 0, source=1 - home_of(worker)),
        "an offset beyond the end": votes(task, worker, end + FAR),
        "an offset without end": votes(task, worker, 1 << 61),
        "more right than given": votes(task, worker, 0, counts=np.array([[1.0, 7.0, 1.0, 0.0]])),
    }


def poison_of_facts(partition: int) -> dict[str, bytes]:
    """On the evidence of a partition."""

    def fact(task: str, offset: int) -> bytes:
        return encode_facts(Facts(1 << 60, [Fact(task, None, 1, "request", False, offset, 7)]))

    return {
        "gold from a description beyond the end": fact("t1", 999_999),
        "gold of a task of another partition": fact(name_in(1 - partition, "forged"), -1),
    }


NONSENSE = [
    b"\xff\xfe",
    b"null",
    b"[]",
    b'{"task":"forged","log_odds":-50.0,"probability":0.0,"prediction":-1,"labels":0,'
    b'"status":"open","sources":{"0":999999},"updated_at":0}',
    b'{"task":"forged","log_odds":1e999,"probability":1.0,"prediction":1,"labels":1,'
    b'"status":"open","sources":{},"updated_at":0}',
    b'{"task":"forged","log_odds":NaN,"probability":NaN,"prediction":1,"labels":1}',
    b'{"task":"forged","log_odds":0.5,"labels":1,"status":"open","sources":{},"updated_at":0}',
    b'{"worker":"w1","accuracy":"high","labels":-1,"correct":null}',
    b'{"worker":"w1","accuracy":0.5,"labels":1,"correct":0.5,"theta":0.1,"habits":{"1":[]}}',
]

KEYS = [bytes(size).hex().encode() for size in (0, 31, 33, 64, 65, 100)] + [b"\xff", b"0" * 65]
"""On the topic of the seal: none of them is a key."""


@dataclass
class PoisonAftermath:
    """What was sent to topics between instances, by topic, and what is there in the end."""

    sent: dict[tuple[str, int, int], str] = field(default_factory=dict)
    dead: dict[tuple[str, int, int], str] = field(default_factory=dict)
    posteriors: dict[str, Posterior] = field(default_factory=dict)
    again: dict[str, Posterior] = field(default_factory=dict)
    forwarded: dict[str, list[tuple[str, bytes]]] = field(default_factory=dict)
    metrics: list[dict[str, float]] = field(default_factory=list)
    answered: set[str] = field(default_factory=set)
    labels: int = 0


class Poisoner:
    """Somebody who can write to all topics."""

    def __init__(
        self, here: ProjectOnBroker, producer: AIOKafkaProducer, found: PoisonAftermath
    ) -> None:
        self.here = here
        self.producer = producer
        self.found = found

    async def send(
        self,
        topic: str,
        partition: int,
        value: bytes | None,
        key: bytes | None = None,
        headers: list[tuple[str, bytes]] | None = None,
    ) -> int:
        name = f"{self.here.settings.prefix}.{topic}"
        sent = await self.producer.send_and_wait(
            name, value, key=key, partition=partition, headers=headers
        )
        return int(sent.offset)

    async def labels(self, when: str, number: int) -> None:
        """Labels of every worker, on tasks of their own."""
        for worker in WORKERS:
            for task in range(number):
                value = encode_label(f"{when} {task}", worker, 1)
                await self.producer.send(
                    self.here.topics.labels.name,
                    value,
                    key=worker.encode(),
                    partition=home_of(worker),
                )
        await self.producer.flush()
        self.found.labels += number * len(WORKERS)

    async def poison(self) -> None:
        """Everything, on every topic between instances."""
        ends = Counter(home_of(worker) for worker in WORKERS)
        end = [ends[partition] * BEFORE for partition in range(PARTITIONS)]
        whole = Whole(Sums(np.zeros(ELSEWHERE), np.zeros(2)))
        for partition in range(PARTITIONS):
            worker = name_in(partition, "w")
            given = AssignmentId(partition, 7, 0)
            lease = encode_lease(worker, "forged", given, "uniform", 1, 1 << 60)
            poisons = {
                "answers": poison_of_answers(partition, end[partition]),
                "votes": poison_of_votes(partition, end),
                "evidence": poison_of_votes(partition, end) | poison_of_facts(partition),
                "estimates": {
                    "an epoch without end": encode_estimates((1 << 62) - 1, whole),
                    "not a number": encode_estimates(
                        1, Sums(np.full(ELSEWHERE, math.nan), np.zeros(2))
                    ),
                },
                "assignments": {
                    "a request in the future": lease,
                    "of partition 999": lease.replace(b'"%d-' % partition, b'"999-'),
                    "a label in the future": lease.replace(b'"%d-7' % partition, b'"label-0-99999'),
                    "a worker of another partition": lease.replace(
                        worker.encode(), name_in(1 - partition, "w").encode()
                    ),
                },
            }
            for topic, values in poisons.items():
                for name, value in values.items():
                    offset = await self.send(topic, partition, value)
                    self.found.sent[topic, partition, offset] = name
            for value in NONSENSE:
                await self.send("posteriors", partition, value, b"forged")
                await self.send("workers", partition, value, b"w1")
        for key in KEYS:
            await self.send("seal", 0, key)

    async def to_be_forwarded(self) -> None:
        """Labels, tasks and a request in the wrong partition, with more than fits."""
        await self._to_be_forwarded("a key of 500 kB", [], bytes(500_000))
        for name, headers in HEADERS.items():
            await self._to_be_forwarded(name, headers, None)

    async def with_headers(self) -> None:
        """A label that counts, one that does not, and a request, each with a forged origin."""
        headers = [("trace", b"7"), ("sbic.origin", b"sbic.labels/0/0/00")]
        home = home_of("ann")
        await self.send("labels", home, encode_label("headers", "ann", 1), b"ann", headers)
        self.found.labels += 1
        offset = await self.send("labels", home, b'{"task":"headers"}', b"ann", headers)
        self.found.sent["labels", home, offset] = "with headers"
        await self.send("requests", home_of("zoe"), encode_request("zoe"), b"zoe", headers)

    async def _to_be_forwarded(
        self, name: str, headers: list[tuple[str, bytes]], key: bytes | None
    ) -> None:
        wrong = 1 - home_of("ann")
        await self.send("labels", wrong, encode_label(name, "ann", 1), key, headers)
        self.found.labels += 1
        task = f"gold {name}"
        if key is None:  # the key of a task has to be the task
            value = encode_task({"task": task, "gold": 1})
            await self.send("tasks", 1 - home_of(task), value, task.encode(), headers)
        worker = f"worker {name}"
        await self.send("requests", 1 - home_of(worker), encode_request(worker), key, headers)


@asynccontextmanager
async def poisoner(here: ProjectOnBroker, found: PoisonAftermath) -> AsyncIterator[Poisoner]:
    async with AIOKafkaProducer(
        bootstrap_servers=here.settings.bootstrap_servers,
        compression_type="gzip",
        max_request_size=32 << 20,
        linger_ms=2,
    ) as producer:
        yield Poisoner(here, producer, found)


def posteriors_in(records: list[ConsumerRecord]) -> dict[str, Posterior]:
    """The last posterior of each task, without the forged ones."""
    return last_posteriors(record for record in records if record.key != b"forged")


async def until_all_count(
    here: ProjectOnBroker, found: PoisonAftermath, running: RunningInstance
) -> None:
    def all_count(records: list[ConsumerRecord]) -> bool:
        assert running.process.poll() is None, running.log()
        return labels_in(posteriors_in(records)) >= found.labels

    await here.until_read(here.topics.posteriors.name, all_count)


def reasons_in(
    here: ProjectOnBroker, letters: list[ConsumerRecord]
) -> dict[tuple[str, int, int], str]:
    """The reasons of dead letters, by the bad record's topic, partition and offset."""
    dead = {}
    for letter in letters:
        told = {name: value.decode() for name, value in letter.headers}
        topic = told["__connect.errors.topic"].removeprefix(f"{here.settings.prefix}.")
        place = told["__connect.errors.partition"], told["__connect.errors.offset"]
        dead[topic, int(place[0]), int(place[1])] = told["__connect.errors.exception.class.name"]
    return dead


Places = set[tuple[str, int, int]]


async def until_dead(here: ProjectOnBroker, found: PoisonAftermath, topics: set[str]) -> Places:
    """Wait until what was sent to these topics is among the dead letters; return where it was."""
    sent = {place for place in found.sent if place[0] in topics}
    await here.until_read(
        here.topics.dead_letters.name, lambda letters: sent <= reasons_in(here, letters).keys()
    )
    return sent


async def until_told(
    here: ProjectOnBroker, found: PoisonAftermath, topics: set[str], running: RunningInstance
) -> None:
    """Wait until what was sent to these topics is among the dead letters, and is counted."""
    sent = await until_dead(here, found, topics)
    name = 'sbic_dead_letters_total{reason="not-ours"}'
    found.metrics.append(running.metrics_with(name, len(sent)))


@pytest.fixture(scope="module")
async def aftermath(broker: EmbeddedBroker) -> PoisonAftermath:
    here = await project(broker, partitions=PARTITIONS, repeats="last")
    env = {"SBIC_PARTITIONS": str(PARTITIONS), "SBIC_REPEATS": "last"}
    found = PoisonAftermath()
    asking = {f"worker {name}" for name in ["a key of 500 kB", *HEADERS]} | {"zoe"}
    async with poisoner(here, found) as stranger:
        await stranger.labels("before", BEFORE)
        with instance(broker.url, here.settings.prefix, **env) as running:
            running.wait_ready()
            await until_all_count(here, found, running)
            await stranger.poison()
            await stranger.to_be_forwarded()
            await until_all_count(here, found, running)
            await until_told(here, found, {"votes", "estimates", "assignments"}, running)
            running.kill()
        with instance(broker.url, here.settings.prefix, **env) as running:
            running.wait_ready()
            await stranger.labels("after", AFTER)
            await stranger.with_headers()
            await until_all_count(here, found, running)
            await here.until_read(
                here.topics.assignments.name,
                lambda records: asking <= {json.loads(each.value)["worker"] for each in records},
            )
            await until_told(here, found, {"answers", "evidence"}, running)
            await until_dead(here, found, {"labels"})
            assert running.terminate() == 0
        found.posteriors = posteriors_in(await here.read(here.topics.posteriors.name))
        with instance(broker.url, here.settings.prefix, **env) as running:
            running.wait_ready()  # by now there are labels at the offsets that were forged
            await stranger.labels("at last", 1)
            await until_all_count(here, found, running)
            assert running.terminate() == 0
    found.again = posteriors_in(await here.read(here.topics.posteriors.name))
    found.dead = reasons_in(here, await here.read(here.topics.dead_letters.name))
    records = await here.read(here.topics.assignments.name)
    found.answered = {json.loads(record.value)["worker"] for record in records}
    for record in await here.read(here.topics.labels.name):
        if record.partition == home_of("ann") and record.headers:
            found.forwarded[json.loads(record.value)["task"]] = list(record.headers)
    await check_tools(here)
    return found


async def check_tools(here: ProjectOnBroker) -> None:
    """What users run goes on."""
    for export in EXPORTS.values():
        records = await current_records(here.settings, export)
        assert len(export.table(here.settings.crowd_classes, records).rows) >= len(WORKERS)


def test_all_labels_before_and_after_count_once(aftermath: PoisonAftermath) -> None:
    for task, posterior in aftermath.posteriors.items():
        if task.startswith(("before", "after")):
            assert posterior["labels"] == len(WORKERS), task
    before = {f"before {task}" for task in range(BEFORE)}
    after = {f"after {task}" for task in range(AFTER)}
    assert before | after <= aftermath.posteriors.keys()


def test_nothing_forged_is_believed(aftermath: PoisonAftermath) -> None:
    assert not [task for task in aftermath.again if task.startswith(("forged", "ttt"))]


def test_one_more_restart_changes_nothing(aftermath: PoisonAftermath) -> None:
    new = aftermath.again.pop("at last 0")
    assert new["labels"] == len(WORKERS)
    assert aftermath.again == aftermath.posteriors


def test_every_poison_is_among_the_dead_letters(aftermath: PoisonAftermath) -> None:
    reasons = {
        f"{place[0]}: {name}": aftermath.dead.get(place) for place, name in aftermath.sent.items()
    }
    assert reasons.pop("labels: with headers") == "missing-field"
    assert {name: reason for name, reason in reasons.items() if reason != "not-ours"} == {}


def test_nothing_else_is_among_the_dead_letters(aftermath: PoisonAftermath) -> None:
    assert aftermath.dead.keys() == aftermath.sent.keys()


def test_a_counter_tells(aftermath: PoisonAftermath) -> None:
    counts = [found['sbic_dead_letters_total{reason="not-ours"}'] for found in aftermath.metrics]
    assert sum(counts) >= len(aftermath.sent) - 1  # the label with headers has another reason


@pytest.mark.parametrize("name", ["a key of 500 kB", *HEADERS])
def test_what_has_to_be_forwarded_counts_whatever_it_carries(
    aftermath: PoisonAftermath, name: str
) -> None:
    assert aftermath.posteriors[name]["labels"] == 1
    assert f"worker {name}" in aftermath.answered
    if name in HEADERS:
        assert aftermath.posteriors[f"gold {name}"].get("gold") == 1


@pytest.mark.parametrize("name", HEADERS)
def test_headers_that_fit_are_forwarded_with_the_origin(
    aftermath: PoisonAftermath, name: str
) -> None:
    *kept, (last, origin) = aftermath.forwarded[name]
    assert kept == HEADERS[name][: len(kept)]
    assert kept
    assert (last, origin.split(b"/")[1]) == ("sbic.origin", b"%d" % (1 - home_of("ann")))
    assert sum(len(key) + len(value) for key, value in kept) < 1 << 16
