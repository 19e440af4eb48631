"""Everything but labels and tasks can be deleted and recreated, whatever happens meanwhile."""

import asyncio
import subprocess
import sys
from collections.abc import Sequence
from time import time_ns

import numpy as np
import pytest
from aiokafka import ConsumerRecord, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, RecordsToDelete
from orjson import dumps, loads

from sbic.client import Posterior
from sbic.engine.labels import Prior
from sbic.kafka.admin import delete_topics, ensure_topics
from sbic.local.broker import EmbeddedBroker
from sbic.project.opening import append, open_project, read_project, read_seal
from sbic.project.revision import Given
from sbic.wire.changelogs import (
    Answers,
    Fact,
    Facts,
    Piece,
    VotesFor,
    encode_answers,
    encode_facts,
)
from sbic.wire.columns import COLUMNS, Names
from sbic.wire.partitions import partition_of
from sbic.wire.posteriors import CLOSE_REASONS
from sbic.wire.votes import Votes, encode_votes
from tests.agents.crowd import algorithm_1, crowd
from tests.agents.kafka import ProjectOnBroker, Triple, project, until
from tests.agents.recount import agree_with_a_recount
from tests.instances import RunningInstance, instance
from tests.projects import environment, sbic

TRIPLES = crowd(labels=1_000, tasks=50, workers=40, seed=61)


async def command(here: ProjectOnBroker, *arguments: str) -> str:
    """Run `sbic project` while instances run; its output."""
    ended = await asyncio.to_thread(sbic, here.settings, "project", *arguments)
    assert ended.returncode == 0, ended.stderr
    return ended.stderr + ended.stdout


async def counted_project(broker: EmbeddedBroker) -> ProjectOnBroker:
    """One partition: all labels are taken in the same order each time."""
    here = await project(broker, partitions=1)
    await here.send(TRIPLES)
    return here


async def forge_a_posterior(here: ProjectOnBroker) -> None:
    """Publish a forged posterior that is indistinguishable from one of ours."""
    posterior = {**(await here.posteriors())["t0"], "log_odds": -9.0, "prediction": -1}
    async with here.producer() as producer:
        await producer.send_and_wait(
            here.topics.posteriors.name, dumps(posterior), key=b"t0", partition=0
        )
    assert (await here.posteriors())["t0"]["log_odds"] == -9.0


async def test_a_recount_mends_what_was_forged_while_an_instance_runs(
    broker: EmbeddedBroker,
) -> None:
    here = await counted_project(broker)
    with instance(broker.url, here.settings.prefix, SBIC_PARTITIONS="1") as running:
        running.wait_ready()
        before = await here.until_counted(len(TRIPLES))
        await forge_a_posterior(here)
        said = await command(here, "recount")
        assert "1,000 labels, all counted" in said
        assert await here.until_counted(len(TRIPLES)) == before
        await agree_with_a_recount(here, TRIPLES)
        assert "the project has changed: restarting" in running.log()
        pid = running.process.pid
        running.wait_ready()
        said = await command(here, "set", "alpha=5", "--recount")
        assert "1,000 labels, all counted" in said
        after = await here.until_counted(len(TRIPLES))
        assert after.keys() == before.keys()
        assert after != before
        await agree_with_a_recount(here, TRIPLES)
        assert running.process.pid == pid
        assert running.process.poll() is None
        assert "alpha                   5.0" in await command(here, "show")
        await command(here, "set", "policy=uniform")
        await until(lambda: started(running, times=4))
        running.wait_ready()
        assert running.terminate() == 0


async def expire(here: ProjectOnBroker, labels: int) -> None:
    """Delete the first labels of each partition, as retention does."""
    topic = here.topics.labels.name
    admin = AIOKafkaAdminClient(bootstrap_servers=here.settings.bootstrap_servers)
    await admin.start()
    try:
        places = [TopicPartition(topic, p) for p in range(here.settings.partitions)]
        await admin.delete_records(dict.fromkeys(places, RecordsToDelete(before_offset=labels)))
    finally:
        await admin.close()


async def test_a_recount_of_expired_labels_asks_and_counts_the_rest_with_two_instances_running(
    broker: EmbeddedBroker,
) -> None:
    here = await project(broker, partitions=2)
    prefix, env = here.settings.prefix, {"SBIC_PARTITIONS": "2"}
    places = await here.send(TRIPLES)
    with instance(broker.url, prefix, **env) as one, instance(broker.url, prefix, **env) as other:
        one.wait_ready()
        other.wait_ready()
        await here.until_counted(len(TRIPLES))
        await expire(here, labels=100)
        refused = await asyncio.to_thread(sbic, here.settings, "project", "recount")
        assert refused.returncode == 130  # there is no terminal to answer on
        assert f"200 labels have expired from {here.topics.labels.name}" in refused.stderr
        assert sum(p["labels"] for p in (await here.posteriors()).values()) == len(TRIPLES)
        said = await command(here, "recount", "--yes")
        assert "only the 800 that are left" in said
        assert "done: 800 labels, all counted" in said, said
        await here.until_counted(800)
        one.wait_ready()
        other.wait_ready()
        assert one.terminate() == other.terminate() == 0
    left = [t for t, (_, offset) in zip(TRIPLES, places, strict=True) if offset >= 100]
    await agree_with_a_recount(here, left)


async def forge_an_answer(here: ProjectOnBroker) -> str:
    """Publish a forged answer for the first label, which no instance has taken yet; its task."""
    task, worker, label = TRIPLES[0]
    columns = np.array([label == -1], "<i2"), np.array([0]), np.array([0]), np.array([0.5])
    votes = encode_votes(
        Votes(0, Names.of([task]), Names.of([worker]), *columns, counts=np.empty((1, 0)))
    )
    answers = encode_answers(Answers([Piece(time_ns(), 0)], [VotesFor(0, votes)], marks=[]))
    async with here.producer() as producer:
        await producer.send_and_wait(here.topics.answers.name, answers, partition=0)
    return task


async def test_a_forged_answer_that_could_be_ours_but_for_its_seal_changes_nothing(
    broker: EmbeddedBroker,
) -> None:
    here = await counted_project(broker)
    task = await forge_an_answer(here)
    with instance(broker.url, here.settings.prefix, SBIC_PARTITIONS="1") as running:
        running.wait_ready()
        exact = log_odds_of(TRIPLES)
        found = await here.until_counted(len(TRIPLES))
        assert task in found
        for name, posterior in found.items():
            assert posterior["log_odds"] == pytest.approx(exact[name], abs=1e-9)
        [letter] = await here.read(here.topics.dead_letters.name)
        assert b"no valid seal" in dict(letter.headers)["__connect.errors.exception.message"]
        assert running.terminate() == 0


async def test_a_new_key_counts_everything_again_and_the_old_one_is_worth_nothing(
    broker: EmbeddedBroker,
) -> None:
    here = await project(broker, partitions=1)
    await here.send(TRIPLES)
    with instance(broker.url, here.settings.prefix, SBIC_PARTITIONS="1") as running:
        running.wait_ready()
        before = await here.until_counted(len(TRIPLES))
        old, revision = await here.read(here.topics.answers.name), await read_project(here.settings)
        assert "all counted" in await command(here, "recount", "--new-key")
        assert await here.until_counted(len(TRIPLES)) == before
        changed = await read_project(here.settings)
        assert revision is not None
        assert changed is not None
        assert changed.seal != revision.seal
        async with here.producer() as producer:
            for record in old:
                await producer.send_and_wait(
                    here.topics.answers.name,
                    record.value,
                    partition=0,
                    headers=list(record.headers),
                )
        running.kill()
    with instance(broker.url, here.settings.prefix, SBIC_PARTITIONS="1") as successor:
        successor.wait_ready()
        assert "no valid seal" in successor.log()
        assert await here.until_counted(len(TRIPLES)) == before
        assert successor.terminate() == 0


async def test_a_project_of_an_earlier_version_is_taken_over_by_a_recount(
    broker: EmbeddedBroker,
) -> None:
    here = await project(broker, partitions=1)
    await here.send(TRIPLES)
    opened = await open_project(Given.of(here.settings))
    await append(here.settings, opened.revision.next(seal=""))
    refused = await asyncio.to_thread(sbic, here.settings, "run")
    assert refused.returncode == 1
    assert f"sbic project recount --new-key --prefix {here.settings.prefix}" in refused.stderr
    await command(here, "recount")
    with instance(broker.url, here.settings.prefix, SBIC_PARTITIONS="1") as running:
        running.wait_ready()
        await here.until_counted(len(TRIPLES))
        assert running.terminate() == 0


async def test_the_last_word_of_the_owner_stays_the_last_in_a_recount_though_others_were_misplaced(
    broker: EmbeddedBroker,
) -> None:
    """A client with another partitioner, such as kcat, writes most of its records elsewhere."""
    here = await project(broker, partitions=2)
    tasks, roster = here.topics.tasks.name, here.topics.roster.name
    elsewhere = {name: 1 - partition_of(name, 2) for name in (b"ann", b"t0")}
    said = [
        (roster, b"ann", {"worker": "ann", "blocked": True}, elsewhere[b"ann"]),
        (tasks, b"t0", {"task": "t0", "gold": -1}, elsewhere[b"t0"]),
        (roster, b"ann", {"worker": "ann", "blocked": False}, 1 - elsewhere[b"ann"]),
        (tasks, b"t0", {"task": "t0", "gold": 1}, 1 - elsewhere[b"t0"]),
    ]

    async def stands(blocked: bool, prediction: int) -> None:
        def says_so(records: Sequence[ConsumerRecord]) -> bool:
            return bool(records) and loads(records[-1].value).get("blocked") is blocked

        await here.until_read(here.topics.workers.name, says_so)
        await here.until_posteriors(lambda found: found["t0"]["prediction"] == prediction)

    await here.send([("t0", "ann", 1)])
    with instance(broker.url, here.settings.prefix, SBIC_PARTITIONS="2") as one:
        one.wait_ready()
        for first in (0, 2):  # the first two are forwarded before the others come
            async with here.producer() as producer:
                for topic, key, value, partition in said[first : first + 2]:
                    await producer.send_and_wait(topic, dumps(value), key=key, partition=partition)
            await stands(blocked=first == 0, prediction=1 if first else -1)
        records = {topic: len(await here.read(topic)) for topic in (tasks, roster)}
        assert records == {tasks: 3, roster: 3}
        for _ in range(2):
            await command(here, "recount")
            one.wait_ready()
            await here.send([("t1", "ann", 1)])  # all that was written before is read before it
            await here.until_posteriors(lambda found: found.get("t1", {}).get("labels") == 1)
            await stands(blocked=False, prediction=1)
            assert {topic: len(await here.read(topic)) for topic in records} == records


async def test_what_rules_have_closed_and_users_reopened_stays_so_in_a_recount_unless_asked(
    broker: EmbeddedBroker,
) -> None:
    here = await project(broker, partitions=1, algorithm="settled")
    with instance(
        broker.url, here.settings.prefix, SBIC_PARTITIONS="1", SBIC_ALGORITHM="settled"
    ) as running:
        running.wait_ready()
        await command(here, "set", "stop_labels=5")
        first = TRIPLES[:500]
        await here.send(first)
        await here.until_counted(len(first))

        def is_followed(found: dict[str, Posterior]) -> bool:
            """An instance follows a rule within a second or two."""
            enough = [each["status"] for each in found.values() if each["labels"] >= 5]
            return len(enough) > 20 and set(enough) == {"closed"}

        before = await here.until_posteriors(is_followed)
        closed = {task for task, posterior in before.items() if posterior["status"] == "closed"}
        assert len(closed) > 20
        again, *_ = sorted(closed)
        value = dumps({"task": again, "status": "open"})
        async with here.producer() as producer:
            await producer.send_and_wait(here.topics.tasks.name, value, key=again.encode())
        await here.until_posteriors(lambda found: bool(found[again].get("reopened")))
        closed.remove(again)
        await command(here, "set", "stop_labels=none")  # now no rule would close them
        for options in ([], ["--new-key"], ["--yes"]):
            await command(here, "recount", *options)
            after = await here.until_counted(len(first))
            kept = {task: posterior for task, posterior in after.items() if task in closed}
            assert {posterior.get("reason") for posterior in kept.values()} == {"labels"}
            assert after[again]["status"] == "open"
            assert after[again]["reopened"] is True
            assert {t for t, p in after.items() if p["status"] == "closed"} == closed
        value = dumps({"task": min(closed), "status": "open"})
        async with here.producer() as producer:
            await producer.send_and_wait(here.topics.tasks.name, value, key=min(closed).encode())
        await here.until_posteriors(lambda found: found[min(closed)]["status"] == "open")
        await command(here, "recount", "--reopen")
        after = await here.until_counted(len(first))
        assert {posterior["status"] for posterior in after.values()} == {"open"}
        assert running.terminate() == 0


async def test_a_task_that_any_rule_has_closed_stays_closed_in_a_recount(
    broker: EmbeddedBroker,
) -> None:
    here = await project(broker, partitions=1)
    opened = await open_project(Given.of(here.settings))
    seal, evidence = await read_seal(here.settings, opened.revision), here.topics.evidence.name
    reasons = [reason for reason in CLOSE_REASONS if reason != "request"]
    facts = [Fact(reason, None, None, reason, False, -1, 0) for reason in reasons]
    value = encode_facts(Facts(1, facts))
    header = seal.header(evidence, 0, value, COLUMNS)
    async with here.producer() as producer:
        await producer.send_and_wait(evidence, value, partition=0, headers=[header])
    await here.send([(reason, "ann", 1) for reason in reasons])
    await command(here, "recount")
    with instance(broker.url, here.settings.prefix) as running:
        running.wait_ready()
        after = await here.until_counted(len(reasons))
        assert {task: found.get("reason") for task, found in after.items()} == {
            reason: reason for reason in reasons
        }


def log_odds_of(triples: list[Triple]) -> dict[str, float]:
    """Algorithm 1 on the labels in their order."""
    offline = algorithm_1(triples, Prior())
    return {task: offline.log_odds(task) for task, _, _ in triples}


async def started(running: RunningInstance, times: int) -> bool:
    return running.log().count("INFO sbic: ready after") >= times


STEPS = (
    "until_group_is_empty",
    "empty_added",
    "keep_closed",
    "delete_records",
    "delete_topics",
    "ensure_topics",
    "commit_zero",
    "append",
)
KILLED = """
import os, sys
import sbic.commands.main, sbic.project.recreation as recreation
recreation.EMPTY_SECONDS = 0.2
async def die(*arguments, **options):
    os._exit(9)
async def second(*arguments, write=recreation.append):
    if arguments[1].state == "ready":
        os._exit(9)
    await write(*arguments)
recreation.{step} = second if "{step}" == "append" else die
sbic.commands.main.main()
"""


async def test_a_recount_that_was_killed_at_any_step_is_completed_by_another(
    broker: EmbeddedBroker,
) -> None:
    here = await counted_project(broker)
    prefix = here.settings.prefix
    with instance(broker.url, prefix, SBIC_PARTITIONS="1") as running:
        running.wait_ready()
        before = await here.until_counted(len(TRIPLES))
        for step in STEPS:
            ended = await asyncio.to_thread(
                subprocess.run,
                [sys.executable, "-c", KILLED.format(step=step), "project", "recount"],
                env=environment(here.settings),
                timeout=60,
            )
            assert ended.returncode == 9, step
        revision = await read_project(here.settings)
        assert revision is not None
        assert revision.state == "recounting"
        await until(lambda: is_waiting(running))
        refused = sbic(here.settings, "project", "set", "alpha=3", "--recount")
        assert refused.returncode == 1
        assert f"sbic project recount --prefix {prefix}" in refused.stderr
        await command(here, "recount")
        assert await here.until_counted(len(TRIPLES)) == before
        running.wait_ready()


async def is_waiting(running: RunningInstance) -> bool:
    status, text = running.get("/readyz")
    return status == 503 and "recounting" in text


async def test_without_an_instance_a_recount_says_so_and_a_reset_empties_the_labels(
    broker: EmbeddedBroker,
) -> None:
    here = await counted_project(broker)
    prefix = here.settings.prefix
    async with here.producer() as producer:
        value = b'{"task":"gold","gold":-1}'
        await producer.send_and_wait(here.topics.tasks.name, value, key=b"gold", partition=0)
    with instance(broker.url, prefix, SBIC_PARTITIONS="1") as running:
        running.wait_ready()
        await here.until_counted(len(TRIPLES))
        assert running.terminate() == 0
    before = await here.posteriors()
    assert before["gold"]["gold"] is True
    said = await command(here, "recount")
    assert f"start one with: sbic run --prefix {prefix}" in said
    assert await here.posteriors() == {}
    with instance(broker.url, prefix) as running:
        running.wait_ready()
        await here.until_posteriors(lambda found: found == before)
        asked = sbic(here.settings, "project", "reset", stdin="n\n")
        assert asked.returncode == 130
        assert "1,000 labels" in asked.stderr
        await command(here, "reset", "--yes")
        await until(lambda: started(running, times=2))
        await here.send(TRIPLES[:10])
        after = await here.until_counted(10)
        assert sum(posterior["labels"] for posterior in after.values()) == 10
        assert after["gold"] == before["gold"]
        assert running.terminate() == 0


async def test_deleted_or_replaced_topics_are_named_and_a_recount_recovers(
    broker: EmbeddedBroker,
) -> None:
    here = await counted_project(broker)
    prefix = here.settings.prefix
    answers, labels, votes = (f"{prefix}.{name}" for name in ("answers", "labels", "votes"))
    way_out = f"sbic project recount --prefix {prefix}"
    with instance(broker.url, prefix, SBIC_PARTITIONS="1") as running:
        running.wait_ready()
        before = await here.until_counted(len(TRIPLES))
        await delete_topics(here.settings, [answers])
        await ensure_topics(here.settings)
        assert await asyncio.to_thread(running.process.wait, 60) == 1
        assert f"{answers} was deleted and recreated" in running.log()
        assert way_out in running.log()
    await delete_topics(here.settings, [labels])
    await ensure_topics(here.settings)
    await delete_topics(here.settings, [votes])
    with instance(broker.url, prefix) as running:
        assert await asyncio.to_thread(running.process.wait, 60) == 1
        (said,) = running.log().splitlines()
    assert f"{votes} was deleted, " in said
    assert f"{labels} was deleted and recreated" in said
    assert way_out in said
    shown = sbic(here.settings, "project", "show")
    assert (shown.returncode, votes in shown.stderr) == (1, True)
    await command(here, "recount")
    await here.send(TRIPLES)
    with instance(broker.url, prefix) as running:
        running.wait_ready()
        after = await here.until_counted(len(TRIPLES))
        assert {task: posterior["log_odds"] for task, posterior in after.items()} == {
            task: posterior["log_odds"] for task, posterior in before.items()
        }


async def test_a_topic_that_is_deleted_while_an_instance_runs_ends_it(
    broker: EmbeddedBroker,
) -> None:
    here = await counted_project(broker)
    with instance(broker.url, here.settings.prefix, SBIC_PARTITIONS="1") as running:
        running.wait_ready()
        await delete_topics(here.settings, [here.topics.labels.name])
        assert await asyncio.to_thread(running.process.wait, 60) == 1
        assert f"{here.topics.labels.name} was deleted" in running.log()


async def test_a_deleted_project_is_gone_and_its_instances_end(broker: EmbeddedBroker) -> None:
    here = await counted_project(broker)
    prefix = here.settings.prefix
    with instance(broker.url, prefix, SBIC_PARTITIONS="1") as running:
        running.wait_ready()
        await here.until_counted(len(TRIPLES))
        lines = (await command(here, "list")).splitlines()
        (own,) = [line.split() for line in lines if line.startswith(prefix)]
        assert own == [prefix, "1,000", "fast-sbic", "-1,1", "ready"]
        await command(here, "delete", "--yes")
        assert running.process.wait(30) == 1
        assert f"the project {prefix} is deleted" in running.log()
    assert prefix not in await command(here, "list")
    assert await here.committed(here.topics.labels.name) == {}
    gone = sbic(here.settings, "project", "show")
    assert gone.returncode == 1
    assert f"create it with: sbic topics --prefix {prefix}" in gone.stderr
