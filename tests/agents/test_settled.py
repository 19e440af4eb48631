"""The same labels settle at the same answer, whatever happens on the way."""

import asyncio
import random
from collections.abc import Sequence
from types import SimpleNamespace
from typing import cast

import numpy as np
import pytest
from orjson import dumps

from sbic.classes import Classes
from sbic.engine.engine import Engine
from sbic.engine.labels import Ids
from sbic.local.broker import EmbeddedBroker
from sbic.project.settings import Settings
from sbic.runtime.agents import Settler
from sbic.runtime.publisher import Publisher
from tests.agents.kafka import AnyTriple, Label, ProjectOnBroker, labels_in, project, until
from tests.agents.test_shutdown import stopped
from tests.inference.crowds import real_crowd
from tests.instances import RunningInstance, instance

LABELS, TASKS, WORKERS = 20_000, 1_000, 200
CROWDS = {
    "four classes": {"SBIC_CLASSES": "cat,dog,bird,fish"},
    "ratings": {"SBIC_SCALE": "1..5"},
    "-1 and 1": {"SBIC_CLASSES": "-1,1"},
}
TOLERANCE = 1e-6


def crowd(classes: Classes, seed: int) -> list[AnyTriple]:
    """Labels in random order; 3 % are given again, and 1 % are taken back."""
    rng = random.Random(seed)
    truth = [rng.randrange(len(classes)) for _ in range(TASKS)]
    knows = [rng.betavariate(3, 2) for _ in range(WORKERS)]
    habit = [rng.randrange(len(classes)) for _ in range(WORKERS)]
    triples: list[AnyTriple] = []
    for pair in rng.sample(range(TASKS * WORKERS), LABELS):
        i, j = pair % TASKS, pair // TASKS
        says = truth[i] if rng.random() < knows[j] else habit[j]
        triples.append((f"t{i}", f"w{j}", classes.label_of(says)))
    for triple in rng.sample(triples, LABELS * 3 // 100):
        triples.insert(rng.randrange(len(triples)), triple)
    for task, worker, _ in rng.sample(triples, LABELS // 100):
        triples.append((task, worker, None))
    return triples


def golds(classes: Classes, seed: int) -> dict[int, int]:
    """The truth of some tasks, drawn like the crowd's."""
    rng = random.Random(seed)
    truth = [rng.randrange(len(classes)) for _ in range(TASKS)]
    return dict(enumerate(truth[:40]))


async def describe(
    here: ProjectOnBroker, classes: Classes, gold: dict[int, int], *, withdraws: bool
) -> None:
    """Give gold, and a prior that is right; or withdraw every second one, and all priors."""
    async with here.producer() as producer:
        for task, truth in gold.items():
            is_kept = not withdraws or task % 2 == 0
            value: dict[str, object] = {
                "task": f"t{task}",
                "gold": classes.label_of(truth) if is_kept else None,
                "prior": None if withdraws else prior_of(classes, truth),
            }
            await producer.send(here.topics.tasks.name, dumps(value), key=f"t{task}".encode())


def prior_of(classes: Classes, truth: int) -> object:
    if classes.is_signs:
        return 0.8 if truth == 1 else 0.2
    rest = 0.4 / (len(classes) - 1)
    return {name: 0.6 if k == truth else rest for k, name in enumerate(classes.names)}


def standing(triples: Sequence[AnyTriple]) -> dict[tuple[str, str], Label]:
    """The labels that stand: the first of each worker, unless it was taken back."""
    found: dict[tuple[str, str], Label] = {}
    for task, worker, label in triples:
        if label is None:
            found.pop((task, worker), None)
        else:
            found.setdefault((task, worker), label)
    return found


def offline(
    classes: Classes, triples: Sequence[AnyTriple], gold: dict[int, int]
) -> dict[str, list[float]]:
    """The probabilities at which the engine comes to rest, without any stream."""
    tasks, workers = Ids[str](), Ids[str]()
    labels = standing(triples)
    engine = Engine("settled", classes=len(classes), is_ordered=classes.is_ordered)
    engine.take(
        [tasks.number(task) for task, _ in labels],
        [workers.number(worker) for _, worker in labels],
        [classes.labels.index(label) for label in labels.values()],
    )
    for task, truth in gold.items():
        engine.set_gold(tasks.number(f"t{task}"), truth)
    engine.settle(1e-12)
    assert not gold or engine.is_calibrated
    beliefs = engine.beliefs(np.arange(len(tasks))).tolist()
    return dict(zip(tasks.names, beliefs, strict=True))


async def probabilities(here: ProjectOnBroker, classes: Classes) -> dict[str, list[float]]:
    """What the posteriors say."""
    found = {}
    for task, posterior in (await here.posteriors()).items():
        if classes.is_signs:
            p = posterior["probability"]
            found[task] = [1 - p, p]
        else:
            found[task] = [posterior["probabilities"][name] for name in classes.names]
    return found


async def at_rest(
    here: ProjectOnBroker, triples: Sequence[AnyTriple], instances: Sequence[RunningInstance]
) -> None:
    """Wait until all labels are counted and every instance is settled, without lag."""

    async def is_quiet() -> bool:
        states = [await asyncio.to_thread(running.metrics) for running in instances]
        return all(
            metrics["sbic_settled"] == 1
            and metrics["sbic_estimates_lag_records"] == 0
            and sum(v for name, v in metrics.items() if name.startswith("sbic_lag_records")) == 0
            for metrics in states
        )

    labels = len(standing(triples))
    await here.until_posteriors(lambda found: labels_in(found) == labels, deadline=120)
    quiet = 0
    while quiet < 5:
        await until(is_quiet, deadline=120)
        quiet += 1
        await asyncio.sleep(0.2)
        quiet *= await is_quiet()


@pytest.mark.parametrize(
    "name", ["four classes", "ratings", pytest.param("-1 and 1", marks=pytest.mark.long)]
)
async def test_one_instance_and_three_under_faults_come_to_rest_where_the_offline_engine_does(
    broker: EmbeddedBroker, name: str
) -> None:
    classes = Settings.from_env(CROWDS[name]).crowd_classes
    env = {
        **CROWDS[name],
        "SBIC_ALGORITHM": "settled",
        "SBIC_SETTLE_TOLERANCE": str(TOLERANCE),
    }
    triples = crowd(classes, seed=len(classes))
    gold = golds(classes, seed=len(classes))
    expected = offline(
        classes, triples, {task: truth for task, truth in gold.items() if task % 2 == 0}
    )

    alone = await project(broker)
    with instance(broker.url, alone.settings.prefix, **env) as running:
        running.wait_ready()
        await describe(alone, classes, gold, withdraws=False)
        await alone.send(triples)
        await describe(alone, classes, gold, withdraws=True)
        await at_rest(alone, triples, [running])
        undisturbed = await probabilities(alone, classes)
        assert running.terminate() == 0

    here = await project(broker)
    shared = await under_faults(broker, here, triples, env, classes, gold)
    assert undisturbed.keys() == shared.keys() == expected.keys()
    for task, beliefs in expected.items():
        assert undisturbed[task] == pytest.approx(beliefs, abs=1e-4)
        assert shared[task] == pytest.approx(beliefs, abs=1e-4)


async def under_faults(
    broker: EmbeddedBroker,
    here: ProjectOnBroker,
    triples: Sequence[AnyTriple],
    env: dict[str, str],
    classes: Classes,
    gold: dict[int, int],
) -> dict[str, list[float]]:
    """Three instances: one is killed, one is stalled for 15 seconds, and one is added."""
    prefix = here.settings.prefix
    parts = np.array_split(np.arange(len(triples)), 4)
    pieces = [[triples[i] for i in part] for part in parts]
    with (
        instance(broker.url, prefix, **env) as first,
        instance(broker.url, prefix, **env) as second,
        instance(broker.url, prefix, **env) as third,
    ):
        for running in (first, second, third):
            await asyncio.to_thread(running.wait_ready)
        await describe(here, classes, gold, withdraws=False)
        await here.send(pieces[0])
        first.kill()
        await here.send(pieces[1])
        await describe(here, classes, gold, withdraws=True)
        with stopped(second):
            await here.send(pieces[2])
            await asyncio.sleep(15)
        with instance(broker.url, prefix, **env) as fourth:
            await here.send(pieces[3])
            await asyncio.to_thread(fourth.wait_ready)
            left = [second, third, fourth]
            await at_rest(here, triples, left)
            return await probabilities(here, classes)


@pytest.mark.parametrize(
    ("name", "error"), [("rte", 0.0700), ("birds", 0.1111), ("dog", 0.1673), ("face", 0.3579)]
)
async def test_a_real_crowd_has_the_error_of_the_offline_table(
    broker: EmbeddedBroker, name: str, error: float
) -> None:
    labels, truth = real_crowd(name)
    classes = Classes.parse(",".join(labels.classes))
    triples: list[AnyTriple] = [
        (labels.task_names[i], labels.worker_names[j], classes.label_of(x))
        for i, j, x in zip(
            labels.task.tolist(), labels.worker.tolist(), labels.answer.tolist(), strict=True
        )
    ]
    random.Random(1).shuffle(triples)
    here = await project(broker)
    env = {"SBIC_CLASSES": ",".join(classes.names), "SBIC_ALGORITHM": "settled"}
    with instance(broker.url, here.settings.prefix, **env) as running:
        running.wait_ready()
        await here.send(triples)
        await at_rest(here, triples, [running])
        found = await probabilities(here, classes)
    beliefs = np.array([found[task] for task in labels.task_names])
    assert np.mean(beliefs.argmax(axis=1) != truth) == pytest.approx(error, abs=0.0003)


def judges(classes: Classes, seed: int) -> list[AnyTriple]:
    """Labels of 14 judges in random order, of whom four repeat most answers of two others."""
    rng = random.Random(seed)
    labels: dict[tuple[int, int], Label] = {}
    for i in range(200):
        truth = rng.choice(classes.labels)
        for j in range(14):
            of = {10: 0, 11: 0, 12: 0, 13: 1}.get(j)
            knows, repeats = rng.random() < 0.65, rng.random() < (0.97 if j == 11 else 1)
            if of is None or not repeats:
                labels[i, j] = truth if knows else rng.choice(classes.labels)
            elif rng.random() < 0.95:
                labels[i, j] = labels[i, of]
    triples: list[AnyTriple] = [(f"t{i}", f"w{j}", label) for (i, j), label in labels.items()]
    rng.shuffle(triples)
    return triples


async def test_copies_share_a_vote_on_three_instances_as_in_the_offline_engine(
    broker: EmbeddedBroker,
) -> None:
    classes = Settings.from_env(CROWDS["four classes"]).crowd_classes
    triples = judges(classes, seed=3)
    expected = offline(classes, triples, {})
    here = await project(broker)
    prefix = here.settings.prefix
    env = {
        **CROWDS["four classes"],
        "SBIC_ALGORITHM": "settled",
        "SBIC_SETTLE_TOLERANCE": str(TOLERANCE),
    }
    with (
        instance(broker.url, prefix, **env) as first,
        instance(broker.url, prefix, **env) as second,
        instance(broker.url, prefix, **env) as third,
    ):
        for running in (first, second, third):
            await asyncio.to_thread(running.wait_ready)
        half = len(triples) // 2
        await here.send(triples[:half])
        await at_rest(here, triples[:half], [first, second, third])
        first.kill()
        await here.send(triples[half:])
        await at_rest(here, triples, [second, third])
        found = await probabilities(here, classes)
        effective = [
            posterior["effective_votes"] for posterior in (await here.posteriors()).values()
        ]
    assert max(effective) < 13  # of up to 14 labels, four repeat others
    for task, beliefs in expected.items():
        assert found[task] == pytest.approx(beliefs, abs=1e-4)


# An instance says that it is settled only while it is, and settles when nobody waits for it.


async def test_a_label_makes_a_settled_instance_unsettled_at_once() -> None:
    engine = Engine("settled", classes=2)
    tasks = SimpleNamespace(is_restored=True)
    instance = SimpleNamespace(crowd=SimpleNamespace(engine=engine), tasks=tasks)
    publisher = SimpleNamespace(instance=instance)
    settler = Settler(cast(Publisher, publisher), lambda: True)
    engine.refresh_due()
    assert settler.is_at_rest
    engine.take([0, 0, 1], [0, 1, 0], [1, 1, 0])
    assert not settler.is_at_rest
    while engine.refresh_due():  # after the tasks comes what is published of them
        assert not settler.is_at_rest
    assert settler.is_at_rest
    tasks.is_restored = False
    assert not settler.is_at_rest


async def test_a_stop_or_a_rebalance_does_not_wait_until_all_tasks_are_refreshed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("sbic.runtime.agents.SETTLED_AT_ONCE", 1)
    engine = Engine("settled", classes=2)
    numbers = np.random.default_rng(1)
    for _ in range(20):
        engine.take(*(numbers.integers(0, most, 10) for most in (20, 6, 2)))
    tasks = SimpleNamespace(is_restored=True)
    instance = SimpleNamespace(crowd=SimpleNamespace(engine=engine), tasks=tasks)
    groups = SimpleNamespace(is_flushing=True, notify=lambda: None)
    publisher = SimpleNamespace(instance=instance, groups=groups, took_labels_at=0.0)
    settler = Settler(cast(Publisher, publisher), lambda: True)
    steps = 0
    refresh_due = engine.refresh_due

    def counted(labels: int) -> bool:
        nonlocal steps
        steps += 1
        groups.is_flushing = steps == 5  # a rebalance begins
        return refresh_due(labels)

    monkeypatch.setattr(engine, "refresh_due", counted)
    await settler._refresh()
    assert steps == 0
    groups.is_flushing = False
    await settler._refresh()
    assert (steps, engine.is_at_rest) == (5, False)
    groups.is_flushing = False
    await settler._refresh()
    assert engine.is_at_rest
