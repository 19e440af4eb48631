"""`sbic project repartition`: all labels in other partitions, once and in order, come what may."""

import asyncio
import json
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial

import pytest
from aiokafka import AIOKafkaProducer
from aiokafka.errors import MessageSizeTooLargeError
from orjson import dumps

from sbic.kafka.admin import extents
from sbic.local.broker import EmbeddedBroker
from sbic.project.opening import read_project
from sbic.project.settings import Settings
from sbic.project.topics import Topics
from sbic.status.contents import standing_labels
from sbic.wire.labels import encode_label
from sbic.wire.partitions import partition_of
from tests.agents.crowd import crowd
from tests.agents.kafka import ProjectOnBroker, project, until
from tests.gateway.client import running_gateway
from tests.instances import RunningInstance, instance
from tests.project.test_added_partitions import add_partitions
from tests.projects import environment, made, new_project, records_of, sbic, write

ROWS = sorted({(f"t{i % 40}", f"w{i // 40}") for i in range(1200)})
Record = tuple[bytes | None, bytes | None]
RECORDS: list[Record] = [(worker.encode(), encode_label(task, worker, 1)) for task, worker in ROWS]
TASKS: list[Record] = [
    (f"t{i}".encode(), dumps({"task": f"t{i}", "gold": 1, "n": i})) for i in range(40)
]
TASKS += [(b"t1", dumps({"task": "t1", "status": "closed"})), (b"t2", None)]
ROSTER: list[Record] = [(b"w1", dumps({"worker": "w1", "blocked": True})), (b"w2", None)]

KILLED = """
import json, os, sys
import sbic.commands.main, sbic.commands.project
import sbic.project.repartition as work, sbic.project.recreation as recreation
from sbic.kafka.writer import Writer
recreation.EMPTY_SECONDS = work.FENCE_SECONDS = 0.2
for line in sys.stdin:
    change, partitions = json.loads(line)
    child = os.fork()
    if not child:
        sys.argv = ["sbic", "project", "repartition", str(partitions)]
        exec(change)
        sbic.commands.main.main()
        os._exit(0)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""
DIES = """
async def die(*arguments, **others):
    os._exit(9)
work.{step} = die
"""
DIES_THERE = """
calls, real = 0, work.{step}
async def some(*arguments, **others):
    global calls
    calls += 1
    if calls == {after}:
        os._exit(9)
    return await real(*arguments, **others)
work.{step} = some
"""
DIES_WRITING = """
import asyncio
written, put, cut = 0, Writer.put, set()
def some(self, topic, rows, partition=None):
    # as a kill does: the first rows of a partition, and after a while no more of it
    global written
    if topic.endswith("{topic}"):
        written += len(rows)
        if written > 300:
            asyncio.get_running_loop().call_later(0.5, os._exit, 9)
            rows = [] if partition in cut else rows[:5]
            cut.add(partition)
    return put(self, topic, rows, partition)
Writer.put = some
import sbic.kafka.reader as reader
reader.RECORDS_AT_ONCE = 100
"""
STEPS = {
    "before anything is copied": DIES.format(step="_carry"),
    "while labels are copied": DIES_WRITING.format(topic=".labels-carried"),
    "while tasks are fenced": DIES_THERE.format(step="alter_topics", after=1),
    "before copies are compared": DIES.format(step="_check"),
    "before they are in force": DIES_THERE.format(step="append", after=1),
    "before the old topics are deleted": DIES.format(step="_recreate"),
    "when the old topics are deleted": DIES.format(step="ensure_topics"),
    "while labels are filled": DIES_WRITING.format(topic=".labels"),
    "while labels are filled, again": DIES_WRITING.format(topic=".labels"),
    "before all is compared": DIES.format(step="_compared"),
    "before the group forgets": DIES.format(step="delete_group"),
    "before it is ready": DIES_THERE.format(step="append", after=1),
    "before the copies are deleted": DIES_THERE.format(step="delete_topics", after=2),
}


@contextmanager
def killing(settings: Settings) -> Iterator[Callable[[str, int], None]]:
    """Runs the command, and kills it at a step; each is a process of its own."""
    process = subprocess.Popen(
        [sys.executable, "-c", KILLED],
        env=environment(settings),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdin
    assert process.stdout

    def killed(step: str, partitions: int) -> None:
        assert process.stdin
        assert process.stdout
        process.stdin.write(json.dumps([STEPS[step], partitions]) + "\n")
        process.stdin.flush()
        assert process.stdout.readline() == "9\n", step

    try:
        yield killed
    finally:
        process.kill()
        process.communicate()


def repartitioned(settings: Settings, partitions: int) -> str:
    done = sbic(settings, "project", "repartition", str(partitions), timeout=200)
    assert done.returncode == 0, done.stderr
    return done.stderr


async def says(running: RunningInstance, line: str) -> bool:
    """Whether an instance is not ready, and says why."""
    return line in running.get("/readyz")[1]


async def check_all(
    settings: Settings, partitions: int, topic: str, sent: Sequence[Record]
) -> None:
    """Each record is there once, in the partition and the order of its key."""
    found = await records_of(replace(settings, partitions=partitions), topic)
    for key in {record.key for record in found}:
        home = partition_of(key, partitions)
        here = [(each.partition, each.value) for each in found if each.key == key]
        assert here == [(home, value) for of, value in sent if of == key], (topic, key)
    assert len(found) == len(sent)


def test_every_record_is_carried_over_once_and_in_order_though_the_command_is_killed_at_each_step(
    broker: EmbeddedBroker,
) -> None:
    settings = made(new_project(broker))
    topics = Topics(settings)
    sent = {topics.labels.name: RECORDS, topics.tasks.name: TASKS, topics.roster.name: ROSTER}
    half = len(RECORDS) // 2
    asyncio.run(write(settings, topics.labels.name, RECORDS[:half]))
    for topic in (topics.tasks, topics.roster):
        asyncio.run(write(settings, topic.name, sent[topic.name]))
    asyncio.run(add_partitions(settings, topics.labels.name, 5))
    asyncio.run(write(settings, topics.labels.name, RECORDS[half:]))
    before = asyncio.run(read_project(settings))
    with killing(settings) as killed:
        for name in STEPS:
            killed(name, 7)
            now = asyncio.run(read_project(settings))
            assert now is not None
            if name in ("before anything is copied", "before the old topics are deleted"):
                waiting = sbic(settings, "replay", "-", stdin="task,worker,label\nt1,ann,1\n")
                assert waiting.returncode == 1, name
                line = f"complete it with: sbic project repartition 7 --prefix {settings.prefix}"
                assert line in waiting.stderr, name
            kept = topics.labels.name + "-carried" * (now.state == "filling")
            found = asyncio.run(extents(settings, [kept]))
            assert sum(each.end for each in found.values()) == len(RECORDS), name
    assert repartitioned(settings, 7) == f"{settings.prefix} has 7 partitions\n"
    for topic_name, records in sent.items():
        asyncio.run(check_all(settings, 7, topic_name, records))
        assert len(asyncio.run(extents(settings, [topic_name]))) == 7
    after = asyncio.run(read_project(settings))
    assert before is not None
    assert after is not None
    assert (after.state, after.partitions_before) == ("ready", 0)
    assert after.settings == {**before.settings, "partitions": 7}
    assert not asyncio.run(extents(settings, [each.name for each in topics.carried]))
    with instance(broker.url, settings.prefix) as running:
        running.wait_ready()
        running.metrics_with('sbic_labels_total{outcome="counted"}', len(ROWS))
        assert running.terminate() == 0


async def test_instances_go_on_with_more_partitions_and_posteriors_are_those_of_a_new_project(
    broker: EmbeddedBroker,
) -> None:
    triples = crowd(labels=1_500, tasks=60, workers=40, seed=7)
    old = await project(broker, partitions=3, algorithm="settled")
    new = await project(broker, partitions=8, algorithm="settled")
    env = {"SBIC_ALGORITHM": "settled"}
    with (
        instance(broker.url, old.settings.prefix, SBIC_PARTITIONS="3", **env) as one,
        instance(broker.url, old.settings.prefix, SBIC_PARTITIONS="3", **env) as other,
        instance(broker.url, new.settings.prefix, SBIC_PARTITIONS="8", **env) as direct,
    ):
        for each in (one, other, direct):
            each.wait_ready()
        await old.send(triples[:1_000])
        await new.send(triples)
        await old.until_counted(1_000)
        async with running_gateway([old.settings]) as client:
            await client.until_ready()
            said = await asyncio.to_thread(repartitioned, old.settings, 8)
            assert "1,000 labels, all counted" in said
            for each in (one, other):
                each.wait_ready()
                assert "Traceback" not in each.log()
            await client.until_ready()
            here = ProjectOnBroker(replace(old.settings, partitions=8))
            rows = [{"task": t, "worker": w, "label": x} for t, w, x in triples[1_000:]]
            for start in range(0, len(rows), 100):
                assert (await client.post("/labels", rows[start : start + 100])).status == 200
        await here.until_counted(len(triples))
        await new.until_counted(len(triples))

        async def are_the_same() -> bool:
            found, expected = await here.posteriors(), await new.posteriors()
            return found.keys() == expected.keys() and all(
                found[task]["labels"] == posterior["labels"]
                and found[task]["probability"] == pytest.approx(posterior["probability"], abs=2e-3)
                for task, posterior in expected.items()
            )

        await until(are_the_same)  # all come to rest
        assert len(await extents(here.settings, [here.topics.posteriors.name])) == 8
        assert one.terminate() == other.terminate() == direct.terminate() == 0


async def test_fewer_partitions_and_what_rules_have_closed_stays_so(broker: EmbeddedBroker) -> None:
    triples = crowd(labels=600, tasks=50, workers=40, seed=61)
    here = await project(broker, partitions=4, algorithm="settled")
    with instance(
        broker.url, here.settings.prefix, SBIC_PARTITIONS="4", SBIC_ALGORITHM="settled"
    ) as running:
        running.wait_ready()
        for rule in ("stop_labels=5", "stop_labels=none"):
            ended = await asyncio.to_thread(sbic, here.settings, "project", "set", rule)
            assert ended.returncode == 0, ended.stderr
            if rule == "stop_labels=5":
                await here.send(triples)
                await here.until_counted(len(triples))
                before = await here.until_posteriors(
                    lambda found: (
                        {p["status"] for p in found.values() if p["labels"] >= 5} == {"closed"}
                    )
                )
        closed = {task for task, posterior in before.items() if posterior["status"] == "closed"}
        again = min(closed)
        async with here.producer() as producer:
            value = dumps({"task": again, "status": "open"})
            await producer.send_and_wait(here.topics.tasks.name, value, key=again.encode())
        await here.until_posteriors(lambda found: bool(found[again].get("reopened")))
        for partitions in (2, 5):
            await asyncio.to_thread(repartitioned, here.settings, partitions)
            now = ProjectOnBroker(replace(here.settings, partitions=partitions))
            after = await now.until_counted(len(triples))
            assert {t for t, p in after.items() if p["status"] == "closed"} == closed - {again}
            assert after[again]["reopened"] is True
            assert {after[task].get("reason") for task in closed - {again}} == {"labels"}
        assert running.terminate() == 0
        counts = Counter(task for task, _, _ in triples)
        assert {task: posterior["labels"] for task, posterior in after.items()} == counts


def test_what_others_write_to_topics_that_are_filled_is_kept_and_before_that_refused(
    broker: EmbeddedBroker,
) -> None:
    settings = made(new_project(broker))
    topic = Topics(settings).labels.name
    asyncio.run(write(settings, topic, RECORDS))
    with killing(settings) as killed:
        killed("before copies are compared", 5)

        async def refused() -> None:
            async with AIOKafkaProducer(bootstrap_servers=settings.bootstrap_servers) as producer:
                with pytest.raises(MessageSizeTooLargeError):
                    await producer.send_and_wait(topic, encode_label("new", "ann", 1), key=b"ann")

        asyncio.run(refused())
        killed("while labels are filled", 5)
    asyncio.run(write(settings, topic, [(b"w1", encode_label("new", "w1", 1))]))
    said = repartitioned(settings, 5)
    assert f"1 records were written to {topic} before it was filled" in said
    found = asyncio.run(standing_labels(replace(settings, partitions=5)))
    assert sorted((t, w) for t, w, _ in found) == sorted([*ROWS, ("new", "w1")])


def test_the_old_number_calls_it_off_and_other_numbers_are_named_or_refused(
    broker: EmbeddedBroker,
) -> None:
    settings = made(new_project(broker))
    topic = Topics(settings).labels.name
    asyncio.run(write(settings, topic, RECORDS[:100]))
    with killing(settings) as killed:
        killed("before copies are compared", 5)
    for command in ("recount", "reset --yes"):
        refused = sbic(settings, "project", *command.split())
        assert refused.returncode == 1
        assert "is repartitioning" in refused.stderr
    with instance(broker.url, settings.prefix, SBIC_PARTITIONS="16") as running:
        line = "is repartitioning: wait until that is done, or, if the command was interrupted, "
        line += f"complete it with: sbic project repartition 5 --prefix {settings.prefix}"
        asyncio.run(until(partial(says, running, line)))
        assert repartitioned(settings, 3) == f"{settings.prefix} has 3 partitions\n"
        asyncio.run(write(settings, topic, RECORDS[100:200]))
        running.wait_ready()
        assert running.log().count(line) == 1
        assert f"sbic project repartition 16 --prefix {settings.prefix}" in running.log()
        running.metrics_with('sbic_labels_total{outcome="counted"}', 200)
        assert running.terminate() == 0
    for wrong in ("0", "10001"):
        assert sbic(settings, "project", "repartition", wrong).returncode == 2
    told = sbic(settings, "project", "set", "partitions=9")
    assert "sbic project repartition N" in told.stderr
    with killing(settings) as killed:
        killed("before the old topics are deleted", 5)
    other = sbic(settings, "project", "repartition", "6")
    assert other.returncode == 1
    assert f"sbic project repartition 5 --prefix {settings.prefix}" in other.stderr
    assert sbic(settings, "project", "delete", "--yes").returncode == 0
    left = [each.name for each in (*Topics(settings), *Topics(settings).carried)]
    assert not asyncio.run(extents(settings, left))
