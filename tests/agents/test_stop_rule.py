"""A stop rule on recorded labels: the pipeline closes each task where the simulation does."""

import asyncio
from collections.abc import Iterator
from contextlib import ExitStack

import numpy as np
import pytest
from orjson import loads

from sbic.classes import SIGNS
from sbic.client import Posterior
from sbic.commands.replay import Uncounted
from sbic.engine.labels import Labels, Prior
from sbic.kafka.reader import parsed, reading
from sbic.kafka.writer import NumberedLabel, sending
from sbic.local.broker import EmbeddedBroker
from sbic.research.stopping import stopped
from sbic.wire.assignments import encode_request
from sbic.wire.posteriors import posterior_parser
from tests.agents.kafka import ProjectOnBroker, project, until
from tests.inference.crowds import random_crowd, real_crowd
from tests.instances import instance
from tests.projects import sbic
from tests.stages.test_survey import crowd

CONFIDENCE = 0.99


def recorded(name: str) -> Labels:
    """The labels of a crowd in random order."""
    labels = random_crowd(60, 40, 20, seed=1) if name == "random" else real_crowd(name)[0]
    return labels.in_order(np.random.default_rng(11).permutation(len(labels)))


def windows(labels: Labels) -> Iterator[list[tuple[int, NumberedLabel]]]:
    """All labels in order, in pieces that have no task twice, each with its place."""
    window: dict[str, tuple[int, NumberedLabel]] = {}
    triples = zip(labels.task.tolist(), labels.worker.tolist(), labels.answer.tolist(), strict=True)
    for place, (task, worker, answer) in enumerate(triples):
        name = labels.task_names[task]
        if name in window:
            yield list(window.values())
            window = {}
        window[name] = place, NumberedLabel(name, labels.worker_names[worker], answer)
    yield list(window.values())


async def ask_for_open_tasks_only(
    kafka: ProjectOnBroker, labels: Labels
) -> tuple[list[int], np.ndarray]:
    """Send each label unless its task is closed by then: those sent, and the log-odds."""
    asked: list[int] = []
    closed: set[str] = set()
    log_odds = dict.fromkeys(labels.task_names, 0.0)
    async with (
        sending(kafka.settings) as sender,
        reading(kafka.settings, kafka.topics.posteriors.name, from_start=True) as reader,
    ):
        uncounted = Uncounted()
        for window in windows(labels):
            still_open = [(place, label) for place, label in window if label[0] not in closed]
            asked += [place for place, _ in still_open]
            async for sent in sender.send_all([label for _, label in still_open]):
                uncounted.add(sent)
            while uncounted:
                for _, posterior in parsed(await reader.next(seconds=30), posterior_parser(SIGNS)):
                    uncounted.learn(posterior)
                    assert posterior.log_odds is not None
                    log_odds[posterior.task] = posterior.log_odds
                    if posterior.reason is not None:
                        assert posterior.reason == "confident"
                        closed.add(posterior.task)
    return asked, np.array(list(log_odds.values()))


@pytest.mark.parametrize("crowd", ["random", "rte"])
async def test_it_asks_for_the_same_labels_as_in_memory_and_knows_the_same(
    broker: EmbeddedBroker, crowd: str
) -> None:
    labels = recorded(crowd)
    expected, estimate = stopped(labels, Prior(), CONFIDENCE)
    kafka = await project(broker, partitions=1)
    rule = {"SBIC_PARTITIONS": "1", "SBIC_STOP_CONFIDENCE": str(CONFIDENCE)}
    with instance(kafka.settings.broker, kafka.settings.prefix, **rule) as one:
        one.wait_ready()
        asked, log_odds = await ask_for_open_tasks_only(kafka, labels)
    assert asked == expected.tolist()
    assert len(asked) < 0.9 * len(labels), "or the rule saves nothing, and this shows nothing"
    np.testing.assert_allclose(log_odds, estimate.score, rtol=0, atol=1e-9)


async def test_tasks_that_more_labels_of_the_kind_could_not_decide_are_exhausted(
    broker: EmbeddedBroker,
) -> None:
    here = await project(broker, partitions=2)
    url, prefix = here.settings.broker, here.settings.prefix
    env = {"SBIC_PARTITIONS": "2", "SBIC_ALGORITHM": "settled", "SBIC_STOP_CONFIDENCE": "0.985"}
    with instance(url, prefix, **env) as one, instance(url, prefix, **env) as two:
        one.wait_ready()
        two.wait_ready()
        await here.send(crowd(200, 12, repeats=0.45))

        def hopeless(found: dict[str, Posterior]) -> bool:
            return len(by_reason(found, "exhausted")) > 150

        found = await here.until_posteriors(hopeless)
        # they reopen only where twice the odds could be reached
        assert max(map(sure_of, by_reason(found, "exhausted"))) < 0.9925
        for running in (one, two):
            running.metrics_with("sbic_dependence", 0.2)
            running.metrics_with('sbic_own_tasks{state="exhausted"}', 20)
        async with here.producer() as producer:
            await producer.send_and_wait(
                here.topics.requests.name, encode_request("new"), key=b"new"
            )
        others = {task for task, each in found.items() if each.get("reason") != "exhausted"}
        [given] = await here.until_read(here.topics.assignments.name, lambda records: bool(records))
        assert loads(given.value).get("task") in {None, *others}


async def test_the_largest_set_with_few_expected_errors_is_closed_by_all_instances_together(
    broker: EmbeddedBroker,
) -> None:
    here = await project(broker, partitions=2)
    env = {"SBIC_PARTITIONS": "2", "SBIC_ALGORITHM": "settled"}
    url, prefix = here.settings.broker, here.settings.prefix
    triples = crowd(120, 5, repeats=0.0)
    with instance(url, prefix, **env) as one, instance(url, prefix, **env) as two:
        one.wait_ready()
        two.wait_ready()
        await here.send(triples)
        found = await here.until_counted(len(triples))
        assert not by_reason(found, "confident")
        changed = sbic(here.settings, "project", "set", "stop_error=0.02")
        assert changed.returncode == 0, changed.stderr

        def is_largest(found: dict[str, Posterior]) -> bool:
            sure = np.sort(list(map(sure_of, found.values())))[::-1]
            shares = np.cumsum(1 - sure) / np.arange(1, len(sure) + 1)
            closed = len(by_reason(found, "confident"))
            # the next ones, whose confidence is in the same or the next row, would be too many
            return 30 < closed < 120 and shares[closed - 1] <= 0.02 < shares[min(closed + 12, 119)]

        found = await here.until_posteriors(is_largest)
        closed = by_reason(found, "confident")
        assert 1 - np.mean(list(map(sure_of, closed))) <= 0.02

        async def counted() -> bool:
            name = 'sbic_own_tasks{state="confident"}'
            own = [await asyncio.to_thread(running.metrics) for running in (one, two)]
            now = by_reason(await here.until_posteriors(is_largest), "confident")
            return sum(metrics[name] for metrics in own) == len(now)

        await until(counted)


def by_reason(found: dict[str, Posterior], reason: str) -> list[Posterior]:
    return [each for each in found.values() if each.get("reason") == reason]


def sure_of(posterior: Posterior) -> float:
    probability: float = posterior["probability"]
    return max(probability, 1 - probability)


async def test_a_rule_of_the_project_stands_and_is_followed_at_once_by_all_instances(
    broker: EmbeddedBroker,
) -> None:
    here = await project(broker, partitions=2)
    triples: list[tuple[str, str, int]] = [
        (f"t{task}", f"w{worker}", 1) for task in range(20) for worker in range(3)
    ]
    url, prefix = here.settings.broker, here.settings.prefix
    with (
        instance(url, prefix, SBIC_PARTITIONS="2", SBIC_STOP_LABELS="9") as one,
        ExitStack() as stack,
    ):
        one.wait_ready()
        # the value of another instance does not matter, whichever is first to see a label
        two = stack.enter_context(instance(url, prefix, SBIC_STOP_LABELS="1", SBIC_BUDGET="5"))
        two.wait_ready()
        assert "stop_labels is 9 in the project" in two.log()
        await here.send(triples)
        found = await here.until_counted(len(triples))
        assert {posterior["status"] for posterior in found.values()} == {"open"}
        said = sbic(here.settings, "project", "set", "stop_labels=3", "budget=100")
        assert said.returncode == 0, said.stderr
        assert "follow at once" in said.stderr

        def all_closed(now: dict[str, Posterior]) -> bool:
            return all(posterior.get("reason") == "labels" for posterior in now.values())

        assert len(await here.until_posteriors(all_closed, 30)) == 20
        for running in (one, two):
            running.metrics_with("sbic_budget_left_labels", 40)
            assert "restarting" not in running.log()
            assert "the project has changed: stop_labels=3 budget=100" in running.log()
        sbic(here.settings, "project", "set", "stop_labels=none")

        async def follow() -> bool:
            return all("stop_labels=None" in running.log() for running in (one, two))

        await until(follow)
        await here.send([("new", f"w{worker}", 1) for worker in range(5)])
        found = await here.until_counted(len(triples) + 5)
        assert found["new"]["status"] == "open"
        assert found["t1"]["status"] == "closed", "what a rule has closed stays closed"
        assert one.terminate() == 0
        assert two.terminate() == 0
