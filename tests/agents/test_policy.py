"""Assignments on the real broker: as in memory, no task twice to a worker, no request waits."""

import asyncio
import random
from collections import Counter, defaultdict
from contextlib import ExitStack
from typing import Any, Literal

import pytest
from aiokafka import AIOKafkaProducer
from orjson import loads

from sbic.engine.labels import Prior
from sbic.infer.fast_sbic import FastSBIC
from sbic.instance.requests import policy_of
from sbic.local.broker import EmbeddedBroker
from sbic.policy.policy import AnswerSet
from sbic.wire.assignments import AssignmentId
from sbic.wire.partitions import partition_of
from sbic.wire.workers import RosterEntry, encode_roster
from tests.agents.kafka import ProjectOnBroker, agree_with_schemas, project, until
from tests.agents.test_poison import reasons_in
from tests.agents.workforce import Workforce, register, workforce
from tests.instances import instance
from tests.project.test_recreation import command
from tests.test_schemas import KINDS

TASKS = [f"t{number}" for number in range(100)]
WORKERS = [f"w{number}" for number in range(50)]


@pytest.mark.long
async def test_one_worker_at_a_time_gets_what_the_simulation_in_memory_gives(
    broker: EmbeddedBroker,
) -> None:
    await asyncio.gather(in_step(broker, "uncertainty"), in_step(broker, "uniform"))


async def in_step(broker: EmbeddedBroker, name: Literal["uncertainty", "uniform"]) -> None:
    """A thousand assignments in a row, each compared with the one in memory."""
    here = await project(broker)
    rng = random.Random(1)
    policy = policy_of(name, TASKS, 11, Prior())
    engine: FastSBIC[str, str] = FastSBIC(Prior())
    answered: dict[str, AnswerSet] = defaultdict(AnswerSet)
    labels = [0] * len(TASKS)
    for task in range(len(TASKS)):
        policy.update(task, 0, 0.0)
    env = {"SBIC_POLICY": name, "SBIC_SEED": "11"}
    with instance(broker.url, here.settings.prefix, **env) as running:
        await asyncio.to_thread(running.wait_ready)
        await register(here, TASKS)
        async with workforce(here) as crowd:
            for _ in range(1000):
                worker, label = rng.choice(WORKERS), rng.choice([1, 1, -1])
                number = policy.choose(answered[worker])
                assert number is not None
                expected = TASKS[number]
                _, given = await asyncio.gather(crowd.ask(worker), crowd.hear(worker))
                assert (given["task"], given["policy"]) == (expected, name)
                handed_in = crowd.hand_in(worker, expected, label)
                _, heard = await asyncio.gather(handed_in, crowd.hear(worker))
                assert heard["ended"] == "answered"
                answered[worker].add(number)
                labels[number] += 1
                engine.observe(expected, worker, label)
                policy.update(number, labels[number], abs(engine.log_odds(expected)))
        metrics = running.metrics()
        assert await asyncio.to_thread(running.terminate) == 0
    assert metrics["sbic_requests_total"] == 1000
    assert metrics[f'sbic_assignments_total{{outcome="{name}"}}'] == 1000
    assert metrics["sbic_request_to_assignment_seconds_count"] == 1000
    assert metrics["sbic_leases"] == 0
    assert await agree_with_schemas(here) == set(KINDS)


STOP_LABELS = 5
LEASE_SECONDS = 4.0


class AskingClient:
    """A client that asks, answers and asks again until there is no open task, or drops out."""

    def __init__(self, name: str, crowd: Workforce, seed: int, drops_out: bool) -> None:
        self.name = name
        self.crowd = crowd
        self.rng = random.Random(seed)
        self.drops_out_after = self.rng.randrange(3) if drops_out else None
        self.requests: list[tuple[int, int]] = []
        self.answers = 0

    async def work(self) -> None:
        """A worker's day."""
        while True:
            self.requests.append(await self.crowd.ask(self.name))
            given = await self._answer_to(self.requests[-1])
            if given["task"] is None:
                if given["reason"] == "no-open-task":
                    return
                assert given["reason"] == "all-answered"
                await asyncio.sleep(self.rng.uniform(0.5, 1))  # others hold what is left
            elif self.answers == self.drops_out_after:
                return
            else:
                label = 0 if self.rng.random() < 0.05 else self.rng.choice([1, 1, -1])
                await self.crowd.hand_in(self.name, given["task"], label)
                self.answers += 1

    async def _answer_to(self, place: tuple[int, int]) -> dict[str, Any]:
        while True:
            heard = await self.crowd.hear(self.name)
            if "ended" not in heard:
                assert AssignmentId.parse(heard["id"])[:2] == place
                return heard


@pytest.mark.long
async def test_three_hundred_workers_some_drop_out_and_an_instance_is_killed(
    broker: EmbeddedBroker,
) -> None:
    settings = {"stop_labels": STOP_LABELS, "lease_seconds": LEASE_SECONDS}
    here = await project(broker, **settings)
    env = {"SBIC_STOP_LABELS": str(STOP_LABELS), "SBIC_LEASE_SECONDS": str(LEASE_SECONDS)}
    prefix = here.settings.prefix
    names = [f"t{number}" for number in range(400)]
    with (
        instance(broker.url, prefix, **env) as first,
        instance(broker.url, prefix, **env) as second,
    ):
        first.wait_ready()
        second.wait_ready()
        await register(here, names)
        async with workforce(here) as crowd:
            workers = [AskingClient(f"w{n}", crowd, n, drops_out=n % 4 == 0) for n in range(300)]
            working = [asyncio.create_task(worker.work()) for worker in workers]
            await here.until_counted(len(names))
            second.kill()
            async with asyncio.timeout(90):
                await asyncio.gather(*working)

        async def no_lease_is_left() -> bool:
            return first.metrics()["sbic_leases"] == 0

        await until(no_lease_is_left, deadline=3 * LEASE_SECONDS)
        assert first.terminate() == 0
    posteriors = await here.posteriors()
    assert {posterior["status"] for posterior in posteriors.values()} == {"closed"}
    assert min(posterior["labels"] for posterior in posteriors.values()) >= STOP_LABELS
    records = [loads(record.value) for record in await here.read(here.topics.assignments.name)]
    answers = Counter(AssignmentId.parse(r["id"])[:2] for r in records if "ended" not in r)
    assert answers == Counter(place for worker in workers for place in worker.requests)
    leases = [r for r in records if r["task"] is not None and "ended" not in r]
    pairs = Counter((r["worker"], r["task"]) for r in leases)
    assert set(pairs.values()) == {1}
    await agree_with_schemas(here)


BAD = [
    (b"{}", "missing-field"),
    (b'{"worker": "w1", "count": 0}', "bad-count"),
    (b"w1", "not-json"),
    (None, "null-value"),
]


async def test_bad_requests_go_to_the_dead_letters_and_the_rest_is_answered(
    broker: EmbeddedBroker,
) -> None:
    here = await project(broker, partitions=2)
    with instance(broker.url, here.settings.prefix, SBIC_PARTITIONS="2") as running:
        running.wait_ready()
        async with workforce(here) as crowd:
            for value, _reason in BAD:
                await crowd.producer.send_and_wait(here.topics.requests.name, value, key=b"w1")
            # with another key than its worker, in either partition
            for partition in range(2):
                await crowd.producer.send_and_wait(
                    here.topics.requests.name, b'{"worker": "w1"}', partition=partition
                )
            for _ in range(2):
                given = await crowd.hear("w1")
                assert (given["task"], given["reason"]) == (None, "no-open-task")
        await here.until_read(
            here.topics.dead_letters.name, lambda letters: len(letters) == len(BAD)
        )
        metrics = running.metrics_with('sbic_dead_letters_total{reason="null-value"}', 1)
        assert running.terminate() == 0
    letters = await here.read(here.topics.dead_letters.name)
    found = {
        (letter.value, dict(letter.headers)["__connect.errors.exception.class.name"].decode())
        for letter in letters
    }
    assert found == set(BAD)
    assert metrics['sbic_dead_letters_total{reason="bad-count"}'] == 1


async def test_labels_as_requests_and_leases_across_a_restart(broker: EmbeddedBroker) -> None:
    here = await project(broker, partitions=2)
    env = {"SBIC_PARTITIONS": "2", "SBIC_ASSIGN_ON_LABEL": "true"}
    async with workforce(here) as crowd:
        with instance(broker.url, here.settings.prefix, **env) as running:
            running.wait_ready()
            await register(here, ["t1", "t2", "t3"])
            await crowd.ask("ann")
            first = await crowd.hear("ann")
            await crowd.hand_in("ann", first["task"], 1)
            assert (await crowd.hear("ann"))["ended"] == "answered"
            second = await crowd.hear("ann")
            assert second["id"].startswith("label-")
            assert running.terminate() == 0
        with instance(broker.url, here.settings.prefix, **env) as running:
            running.wait_ready()
            assert running.metrics()["sbic_leases"] == 1
            await crowd.ask("ann", count=2)
            third, none = await crowd.hear("ann"), await crowd.hear("ann")
            assert {first["task"], second["task"], third["task"]} == {"t1", "t2", "t3"}
            assert none["reason"] == "all-answered"
            await crowd.hand_in("ann", second["task"], 0)  # a lease of before the restart
            ended, last = await crowd.hear("ann"), await crowd.hear("ann")
            assert (ended["ended"], ended["id"]) == ("skipped", second["id"])
            assert last["task"] is None
            assert running.terminate() == 0


# The roster on a real broker: blocked workers, two instances, a crash, and what is no entry.


PARTITIONS = 2
ANN, BOB = (next(f"w{n}" for n in range(9) if partition_of(b"w%d" % n, 2) == p) for p in (0, 1))
BAD_ENTRIES: list[tuple[bytes | None, bytes | None, str]] = [
    (b"w", b"\xff\xfe", "not-json"),
    (b"w", b"[" * 5_000, "not-json"),
    (b"w", b"[]", "not-object"),
    (b"w", b"{}", "missing-field"),
    (b"w", b'{"worker": {"worker": 1}}', "bad-id"),
    (b"w", b'{"worker": "w", "blocked": "yes"}', "bad-field"),
    (b"w", b'{"worker": "w", "blocked": 1e999}', "not-json"),
    (b"w", b'{"worker": "w", "name": "%b"}' % (b"x" * 300), "bad-field"),
    (b"w", b'{"worker": "w", "group": ["f"]}', "bad-field"),
    (b"w", b'{"worker": "w", "tier": 10}', "bad-field"),
    (b"w", b'{"worker": "w", "price": -1}', "bad-field"),
    (b"w", b'{"worker": "w", "price": NaN}', "not-json"),
    (b"w", b'{"worker": "w"}' + b" " * (1 << 20), "too-large"),
    (b"\xff", None, "bad-id"),
    (b"", None, "null-value"),
]


async def send(
    producer: AIOKafkaProducer,
    here: ProjectOnBroker,
    key: bytes | None,
    value: bytes | None,
    partition: int,
    headers: Any = None,
) -> int:
    sent = await producer.send_and_wait(
        here.topics.roster.name, value, key=key, partition=partition, headers=headers
    )
    return int(sent.offset)


async def answer(crowd: Workforce, worker: str) -> dict[str, Any]:
    await crowd.ask(worker)
    return await crowd.hear(worker)


async def until_answered(crowd: Workforce, worker: str, reason: str | None) -> None:
    """Ask until the answer has this reason, or None for a task."""

    async def is_so() -> bool:
        return (await answer(crowd, worker)).get("reason") == reason

    await until(is_so)


async def until_committed(here: ProjectOnBroker, ends: dict[int, int]) -> None:
    async def is_so() -> bool:
        return await here.committed(here.topics.roster.name) == ends

    await until(is_so)


async def test_a_worker_stays_blocked_whatever_else_is_on_the_roster_and_whoever_answers(
    broker: EmbeddedBroker,
) -> None:
    here = await project(broker, partitions=PARTITIONS)
    run = broker.url, here.settings.prefix
    env = {"SBIC_PARTITIONS": str(PARTITIONS)}
    expected: dict[tuple[str, int, int], str] = {}
    async with (
        AIOKafkaProducer(
            bootstrap_servers=here.settings.bootstrap_servers, max_request_size=4 << 20
        ) as producer,
        workforce(here) as crowd,
    ):
        with ExitStack() as stack:
            instances = [stack.enter_context(instance(*run, **env)) for _ in range(2)]
            for running in instances:
                running.wait_ready()
            await register(here, [f"t{number}" for number in range(400)])
            for partition in range(PARTITIONS):
                for key, value, reason in BAD_ENTRIES:
                    offset = await send(producer, here, key, value, partition)
                    expected["roster", partition, offset] = reason
            # with another key, in another partition, and more headers than can be forwarded
            blocked = encode_roster(ANN, RosterEntry(blocked=True))
            await send(producer, here, b"x", blocked, 1, [("note", bytes(500_000))])
            await send(
                producer,
                here,
                BOB.encode(),
                encode_roster(BOB, RosterEntry(blocked=True, name="Bob")),
                1,
            )
            await until_answered(crowd, ANN, "worker-blocked")
            await until_answered(crowd, BOB, "worker-blocked")
            # one record more in partition 0: the one that was forwarded
            await until_committed(here, {0: len(BAD_ENTRIES) + 1, 1: len(BAD_ENTRIES) + 2})
            for running in instances:
                running.kill()
        found = reasons_in(here, await here.read(here.topics.dead_letters.name))
        assert found == expected
        with instance(*run, **env) as running:
            running.wait_ready()
            for worker in (ANN, BOB):
                assert (await answer(crowd, worker))["reason"] == "worker-blocked"
            await send(producer, here, BOB.encode(), None, 1)
            await until_answered(crowd, BOB, None)
            assert (await answer(crowd, ANN))["reason"] == "worker-blocked"
            await crowd.hand_in(ANN, "t1", 1)
            records = await here.until_read(
                here.topics.workers.name, lambda found: any(r.key == ANN.encode() for r in found)
            )
            assert any(b'"blocked":true' in (record.value or b"") for record in records)
            letters = await here.read(here.topics.dead_letters.name)
            assert len(letters) == len(expected), "each is a dead letter once"
            await command(here, "recount")
            assert (await answer(crowd, ANN))["reason"] == "worker-blocked"
            assert (await answer(crowd, BOB)).get("reason") != "worker-blocked"
            assert running.terminate() == 0
