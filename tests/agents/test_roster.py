"""The roster on a real broker: blocked workers, two instances, a crash, and what is no entry."""

from contextlib import ExitStack
from typing import Any

from aiokafka import AIOKafkaProducer

from sbic.local.broker import EmbeddedBroker
from sbic.wire.partitions import partition_of
from sbic.wire.workers import RosterEntry, encode_roster
from tests.agents.kafka import ProjectOnBroker, project, until
from tests.agents.test_poison import reasons_in
from tests.agents.workforce import Workforce, register, workforce
from tests.instances import instance
from tests.project.test_recreation import command

PARTITIONS = 2
ANN, BOB = (next(f"w{n}" for n in range(9) if partition_of(b"w%d" % n, 2) == p) for p in (0, 1))
BAD: list[tuple[bytes | None, bytes | None, str]] = [
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
                for key, value, reason in BAD:
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
            await until_committed(here, {0: len(BAD) + 1, 1: len(BAD) + 2})
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
