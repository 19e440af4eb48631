"""Gold, priors, closing, reopening and retraction on the real broker, across a restart."""

from math import log
from typing import Any

import numpy as np
import pytest
from aiokafka import ConsumerRecord
from orjson import dumps, loads

from sbic.client import Posterior
from sbic.engine.labels import Prior
from sbic.infer.intervals import beta_interval
from sbic.local.broker import EmbeddedBroker
from sbic.wire.partitions import partition_of
from tests.agents.crowd import algorithm_1, crowd
from tests.agents.kafka import ProjectOnBroker, Triple, agree_with_schemas, project
from tests.instances import instance


async def say(here: ProjectOnBroker, *records: dict[str, Any] | tuple[bytes, bytes | None]) -> None:
    """Put records on the tasks topic as a good client does; a pair is a key and a value."""
    async with here.producer() as producer:
        for record in records:
            if isinstance(record, dict):
                key, value = record["task"].encode(), dumps(record)
            else:
                key, value = record  # type: ignore[assignment]
            partition = partition_of(key, here.settings.partitions)
            await producer.send_and_wait(
                here.topics.tasks.name, value, key=key, partition=partition
            )


async def until_so(here: ProjectOnBroker, task: str, **fields: object) -> Posterior:
    """The posterior of a task, once its fields have these values; None: the field is absent."""

    def are_so(found: dict[str, Posterior]) -> bool:
        posterior: Any = found.get(task)
        return posterior is not None and all(
            posterior.get(name) == value for name, value in fields.items()
        )

    return (await here.until_posteriors(are_so, 30))[task]


async def label(here: ProjectOnBroker, *triples: Triple) -> dict[str, Posterior]:
    """Send labels, and the posteriors once all are dealt with."""
    return await here.until_dealt_with(triples, await here.send(triples))


def last_values(records: list[ConsumerRecord]) -> dict[str, dict[str, Any]]:
    """The last value of each key."""
    return {record.key.decode(): loads(record.value) for record in records}


def logit(q: float) -> float:
    return log(q / (1 - q))


async def test_a_prior_before_and_after_labels_and_a_restart(broker: EmbeddedBroker) -> None:
    here = await project(broker)
    prefix = here.settings.prefix
    with instance(broker.url, prefix) as running:
        running.wait_ready()
        await say(here, {"task": "t1", "prior": 0.3})
        registered = await until_so(here, "t1", prior=0.3)
        assert (registered["log_odds"], registered["labels"]) == (logit(0.3), 0)
        after = (await label(here, ("t1", "ann", 1)))["t1"]
        assert after["log_odds"] == pytest.approx(logit(0.3) + log(2), abs=1e-12)
        await say(here, {"task": "t1", "prior": 0.9})
        shifted = await until_so(here, "t1", prior=0.9)
        assert shifted["log_odds"] == pytest.approx(logit(0.9) + log(2), abs=1e-12)
        assert running.terminate() == 0
    with instance(broker.url, prefix) as running:
        running.wait_ready()
        await say(here, {"task": "t1", "prior": None})
        back = await until_so(here, "t1", prior=None)
        assert back["log_odds"] == pytest.approx(log(2), abs=1e-12)
        assert back["labels"] == 1
        assert running.terminate() == 0
    await agree_with_schemas(here)


async def test_gold_tells_who_is_good_and_a_restart_does_not_forget(
    broker: EmbeddedBroker,
) -> None:
    here = await project(broker)
    prefix = here.settings.prefix
    gold = [f"g{i}" for i in range(4)]
    with instance(broker.url, prefix, SBIC_STOP_LABELS="2") as running:
        running.wait_ready()
        await say(here, *({"task": task, "gold": 1} for task in gold))
        for task in gold:
            await until_so(here, task, gold=True, probability=1.0, prediction=1)
        answers: list[Triple] = [(task, "ann", 1) for task in gold]
        answers += [(task, "bob", -1) for task in gold]
        posteriors = await label(here, *answers)
        for task in gold:  # certain whatever they say, and no rule closes it
            posterior = posteriors[task]
            assert (posterior["probability"], posterior["labels"]) == (1.0, 2)
            assert posterior["status"] == "open"
        running.kill()
    with instance(broker.url, prefix, SBIC_STOP_LABELS="2") as running:
        running.wait_ready(60)
        weights = await label(here, ("t1", "ann", 1), ("t2", "bob", 1))
        # ann has 4 of 4 right, bob none: weights log((c + 2) / (n - c + 1))
        assert weights["t1"]["log_odds"] == pytest.approx(log(6 / 1), abs=1e-12)
        assert weights["t2"]["log_odds"] == pytest.approx(log(2 / 5), abs=1e-12)

        def count_all(records: list[ConsumerRecord]) -> bool:
            known = last_values(records)
            return all(known[name]["labels"] == 5 for name in ("ann", "bob"))

        known = last_values(await here.until_read(here.topics.workers.name, count_all, 30))
        assert (known["ann"]["gold"], known["ann"]["gold_right"]) == (4, 4)
        assert (known["bob"]["gold"], known["bob"]["gold_right"]) == (4, 0)
        ann = known["ann"]
        a, b = ann["correct"] + 2, ann["labels"] - ann["correct"] + 1
        assert ann["interval"] == pytest.approx(_interval(a, b), abs=1e-9)
        assert ann["accuracy"] == pytest.approx(a / (a + b))
        labels = await here.read(here.topics.labels.name)
        assert ann["last_seen"] == max(r.timestamp for r in labels if r.key == b"ann")
        # without gold, the votes decide: two unknown workers who disagree
        await say(here, {"task": "g0", "gold": None})
        withdrawn = await until_so(here, "g0", gold=None)
        assert withdrawn["log_odds"] == pytest.approx(0.0, abs=1e-12)
        assert withdrawn["reason"] == "labels"
        assert running.terminate() == 0
    await agree_with_schemas(here)


def _interval(a: float, b: float) -> list[float]:
    return [float(end[0]) for end in beta_interval(np.array([a]), np.array([b]))]


async def test_closing_reopening_and_late_labels_across_restarts(broker: EmbeddedBroker) -> None:
    here = await project(broker)
    prefix = here.settings.prefix
    rule = {"SBIC_STOP_LABELS": "2", "SBIC_STOP_CONFIDENCE": "0.85"}
    with instance(broker.url, prefix, **rule) as running:
        running.wait_ready()
        # log 2 each: p = 2/3, then 0.8 (two labels), then 8/9
        await label(here, ("t1", "ann", 1), ("t1", "bob", 1), ("t2", "cas", 1))
        await until_so(here, "t1", status="closed", reason="labels")
        await say(here, {"task": "t2", "prior": 0.9})
        await until_so(here, "t2", status="closed", reason="confident")
        await say(here, {"task": "t3", "status": "closed"}, (b"t4", None))
        for task in ("t3", "t4"):
            await until_so(here, task, status="closed", reason="request", labels=0)
        assert running.terminate() == 0
    with instance(broker.url, prefix, **rule) as running:
        running.wait_ready()
        late = await label(here, ("t1", "dee", 1))
        assert (late["t1"]["status"], late["t1"]["labels"]) == ("closed", 3)
        await say(here, {"task": "t1", "status": "open"}, {"task": "t3", "status": "open"})
        await until_so(here, "t1", status="open", reopened=True)
        await until_so(here, "t3", status="open", reason=None)
        assert running.terminate() == 0
    with instance(broker.url, prefix, **rule) as running:
        running.wait_ready()
        reopened = await label(here, ("t1", "eve", 1))
        assert (reopened["t1"]["status"], reopened["t1"]["labels"]) == ("open", 4)
        await say(here, {"task": "t1", "status": "closed"})
        await until_so(here, "t1", status="closed", reason="request", reopened=None)
        assert running.terminate() == 0
    await agree_with_schemas(here)


async def test_the_budget_closes_the_tasks_of_every_instance(broker: EmbeddedBroker) -> None:
    here = await project(broker)
    prefix = here.settings.prefix
    triples = crowd(labels=300, tasks=40, workers=20, seed=11)
    budget = {"SBIC_BUDGET": "300"}
    with (
        instance(broker.url, prefix, **budget) as one,
        instance(broker.url, prefix, **budget) as two,
    ):
        one.wait_ready()
        two.wait_ready()
        await say(here, {"task": "unlabelled"}, {"task": "gold", "gold": -1})
        await until_so(here, "gold", gold=True)
        await label(here, *triples[:-1])
        posteriors = await here.posteriors()
        assert {posterior["status"] for posterior in posteriors.values()} == {"open"}
        await here.send(triples[-1:])

        def all_closed(found: dict[str, Posterior]) -> bool:
            return all(p.get("reason") == "budget" for p in found.values() if "gold" not in p)

        posteriors = await here.until_posteriors(all_closed, 30)
        assert posteriors["gold"]["status"] == "open"
        await say(here, {"task": "new"})
        await until_so(here, "new", reason="budget")
        assert one.terminate() == 0
        assert two.terminate() == 0


async def test_a_retracted_answer_is_as_if_it_had_never_been_given(broker: EmbeddedBroker) -> None:
    here = await project(broker, partitions=1)
    prefix = here.settings.prefix
    env = {"SBIC_PARTITIONS": "1"}
    others = crowd(labels=120, tasks=12, workers=12, seed=12)
    given: Triple = ("t1", "zoe", -1)
    with instance(broker.url, prefix, **env) as running:
        running.wait_ready()
        await label(here, *others[:60], given)
        assert running.terminate() == 0
    with instance(broker.url, prefix, **env) as running:
        running.wait_ready()
        await label(here, ("t1", "zoe", None))
        posteriors = await label(here, *others[60:], ("t2", "zoe", 1))
        assert running.terminate() == 0
    engine = algorithm_1([*others[:60], given], Prior())
    engine.revert("t1", "zoe")
    later: list[Triple] = [*others[60:], ("t2", "zoe", 1)]
    for task, worker, answer in later:
        assert answer is not None
        engine.observe(task, worker, answer)
    for task, posterior in posteriors.items():
        assert posterior["log_odds"] == pytest.approx(engine.log_odds(task), abs=1e-9)
    counted = sum(posterior["labels"] for posterior in posteriors.values())
    assert counted == len(others) + 1
    assert last_values(await here.read(here.topics.workers.name))["zoe"]["labels"] == 1


async def test_bad_task_records_are_dead_letters_and_the_rest_is_heeded_wherever_it_came(
    broker: EmbeddedBroker,
) -> None:
    here = await project(broker)
    home = partition_of(b"t2", here.settings.partitions)
    bad: list[tuple[bytes, bytes, str]] = [
        (b"t1", b"{", "not-json"),
        (b"t1", b'{"task": "t1", "prior": 1}', "bad-prior"),
        (b"t1", b'{"task": "t1", "gold": 0}', "bad-gold"),
        (b"t1", b'{"task": "t1", "status": "done"}', "bad-status"),
        (b"t1", b'{"prior": 0.5}', "missing-field"),
        (b"t1", b'{"task": ""}', "bad-id"),
    ]
    with instance(broker.url, here.settings.prefix) as running:
        running.wait_ready()
        await say(here, *((key, value) for key, value, _ in bad), {"task": "t1", "prior": 0.25})
        posterior = await until_so(here, "t1", prior=0.25)
        assert posterior["sources"] == {"tasks": len(bad)}
        await here.until_read(
            here.topics.dead_letters.name, lambda letters: len(letters) == len(bad), 30
        )
        async with here.producer() as producer:  # with another key, in another partition
            value = dumps({"task": "t2", "prior": 0.2})
            wrong = (home + 1) % here.settings.partitions
            await producer.send_and_wait(here.topics.tasks.name, value, key=b"x", partition=wrong)
        assert (await until_so(here, "t2", prior=0.2))["log_odds"] == logit(0.2)
        metrics = running.metrics()
        assert metrics['sbic_dead_letters_total{reason="bad-prior"}'] == 1
    letters = await here.read(here.topics.dead_letters.name)
    reason = "__connect.errors.exception.class.name"
    found = {record.value: dict(record.headers)[reason].decode() for record in letters}
    assert found == {value: why for _, value, why in bad}
    assert {dict(r.headers)["__connect.errors.topic"] for r in letters} == {
        here.topics.tasks.name.encode()
    }
    records = await here.read(here.topics.posteriors.name)
    assert {r.partition for r in records if r.key == b"t2"} == {home}
