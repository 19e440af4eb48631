"""Metrics of timestamps, tasks and leases, without a broker."""

import asyncio
import json
import math
import re
import shutil
import subprocess
import time
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple
from urllib.error import URLError
from urllib.parse import quote
from urllib.request import urlopen

import numpy as np
import pytest
from aiokafka import AIOKafkaProducer
from orjson import loads
from prometheus_client import generate_latest
from prometheus_client.parser import text_string_to_metric_families

from sbic.classes import SIGNS
from sbic.engine.engine import Engine
from sbic.instance.crowd import OPEN, REASONS, Crowd
from sbic.instance.leases import Leases
from sbic.instance.survey import Survey, Surveyor
from sbic.instance.tasks import TaskStage
from sbic.instance.workers import encode_workers
from sbic.local.broker import EmbeddedBroker
from sbic.local.java import free_port
from sbic.runtime.metrics import Metrics
from sbic.wire.assignments import AssignmentId, AssignmentRecord, encode_request
from sbic.wire.labels import encode_label
from sbic.wire.partitions import partition_of
from tests.agents.crowd import crowd
from tests.agents.kafka import project, until
from tests.instances import instance

LATENCY = "sbic_label_to_posterior_seconds"


def samples(metrics: Metrics) -> dict[str, float]:
    text = generate_latest(metrics.registry).decode()
    return {
        " ".join([sample.name, *sample.labels.values()]): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_no_series_tells_when_a_counter_was_created() -> None:
    metrics = Metrics("birds")
    metrics.labels.labels("counted").inc()
    assert not [name for name in samples(metrics) if "_created" in name]


def test_the_project_is_in_the_build_info() -> None:
    assert any(name.startswith("sbic_build_info birds ") for name in samples(Metrics("birds")))


def test_timestamps_of_another_time_are_counted_apart_and_not_in_the_latency() -> None:
    metrics = Metrics("birds")
    now = int(1000 * time.time())
    metrics.dated([np.array([now - 500, 0, now + 10**9, now + 5_000]), np.array([-1])])
    found = samples(metrics)
    assert found[f"{LATENCY}_count"] == 2
    assert 0.5 <= found[f"{LATENCY}_sum"] < 60
    assert found["sbic_misdated_total old"] == 2
    assert found["sbic_misdated_total ahead"] == 1


def crowd_of(tasks: int, partitions: int) -> Crowd:
    """Tasks of which only those of the first partition are here."""
    crowd = Crowd(Engine("fast-sbic"), SIGNS, partitions)
    crowd.open_tasks(0)
    crowd.open_workers(0)
    crowd.count_workers(0)
    crowd.number_tasks([f"t{i}" for i in range(tasks)])
    return crowd


def surveyed(surveyor: Surveyor) -> Survey:
    survey = Survey.empty(2)
    for _ in surveyor.steps(survey):
        pass
    return survey


def test_a_survey_counts_the_own_tasks_by_state_and_by_confidence() -> None:
    crowd = crowd_of(25_000, partitions=2)  # in several steps
    own = crowd.tasks_of(0)
    crowd.task.reason[own[:7]] = REASONS.index("labels")
    workers = crowd.number_workers([f"w{j}" for j in range(40)])
    rng = np.random.default_rng(1)
    tasks = rng.choice(own, 3_000)
    answers = rng.integers(0, 2, len(tasks))
    crowd.engine.take(tasks, rng.choice(workers, len(tasks)), answers, replaces=False)
    survey = surveyed(Surveyor(TaskStage(crowd)))
    states = survey.tasks_by_state()
    assert states == {
        "open": len(own) - 7,
        "confident": 0,
        "labels": 7,
        "budget": 0,
        "request": 0,
        "exhausted": 0,
        "escalated": 0,
    }
    sure = crowd.engine.beliefs(own).max(axis=1)
    assert np.isclose(survey.expected_wrong, (1 - sure).sum())
    assert survey.confidences.sum() == len(own)
    assert survey.confidences[0] == (sure <= 0.5).sum()
    assert survey.confidences[1] == ((sure > 0.5) & (sure <= 0.6)).sum()
    assert (crowd.task.reason[crowd.tasks_of(1)] == OPEN).all()


def test_a_survey_counts_the_workers_who_are_blocked() -> None:
    crowd = crowd_of(200, partitions=1)
    good, bad, new = (int(j) for j in crowd.number_workers(["good", "bad", "new"]))
    for task in range(40):
        crowd.engine.set_gold(task, 1)
        crowd.engine.take_one(task, good, 1)
        crowd.engine.take_one(task, bad, 0)
    crowd.engine.take_one(0, new, 0)
    assert (
        surveyed(Surveyor(TaskStage(crowd), block_below=0.6, block_after=10)).blocked_workers == 1
    )
    assert surveyed(Surveyor(TaskStage(crowd))).blocked_workers == 0


def test_a_survey_counts_the_workers_whom_gold_contradicts() -> None:
    crowd = crowd_of(0, partitions=1)
    tasks = crowd.number_tasks([f"t{number}" for number in range(300)]).tolist()
    workers = crowd.number_workers(["a", "b", "c", "alone"]).tolist()
    rng = np.random.default_rng(1)
    for i in tasks:
        together = int(rng.random() < 0.6)  # three who err together; the truth is 1 everywhere
        for j in workers[:3]:
            crowd.engine.take_one(i, j, together)
        crowd.engine.take_one(i, workers[3], int(rng.random() < 0.95))
    assert surveyed(Surveyor(TaskStage(crowd))).contradicted_workers == 0
    for i in tasks[:60]:
        crowd.engine.set_gold(i, 1)
    told = {worker["worker"]: worker for worker in map(loads, values_of(crowd, workers))}
    contradicted = {name for name, worker in told.items() if "contradicted" in worker}
    assert {"a", "b", "c"} <= contradicted
    for name in contradicted:
        low, high = told[name]["interval"]
        assert not low <= told[name]["gold_right"] / told[name]["gold"] <= high
    assert surveyed(Surveyor(TaskStage(crowd))).contradicted_workers == len(contradicted)


def values_of(crowd: Crowd, workers: Sequence[int]) -> list[bytes]:
    return [record.value for record in encode_workers(crowd, np.array(workers))]


def test_leases_that_expire_are_counted_by_who_gave_them_and_once() -> None:
    leases = Leases()
    for partition, task in ((0, "t1"), (0, "t2"), (1, "t3")):
        name = AssignmentId(partition, int(task[1]), 0)
        given = AssignmentRecord("ann", task, name, expires_at=600, ended=False)
        leases.learn(given, partition, now=0)
    leases.end("ann", "t2")
    leases.expire(600)
    assert leases.take_expirations({0}) == 1
    assert leases.take_expirations({0, 1}) == 0


def test_a_lease_that_was_over_before_the_start_is_not_counted() -> None:
    leases = Leases()
    given = AssignmentRecord("ann", "t1", AssignmentId(0, 1, 0), expires_at=600, ended=False)
    leases.learn(given, 0, now=700)
    leases.expire(700)
    assert leases.take_expirations({0}) == 0


# What the Grafana dashboard asks Prometheus for.


DASHBOARD = json.loads(
    (Path(__file__).parent.parent.parent / "deploy/grafana/sbic.json").read_text()
)
VARIABLES = {"$instance": ".*", "$prefix": ".*", "$__rate_interval": "1m"}


class Query(NamedTuple):
    """A query as Grafana sends it, and the labels that its legend shows."""

    panel: str
    expression: str
    legend_labels: set[str]


def queries() -> Iterator[Query]:
    """All queries of all panels."""
    for panel in DASHBOARD["panels"]:
        for target in panel.get("targets", []):
            labels = set(re.findall(r"{{(\w+)}}", target["legendFormat"]))
            yield Query(panel["title"], filled_in(target["expr"]), labels)


def filled_in(expression: str) -> str:
    """An expression with values for Grafana's variables."""
    for name, value in VARIABLES.items():
        expression = expression.replace(name, value)
    assert "$" not in expression, "a variable that this does not know"
    return expression


def label_values() -> Iterator[tuple[str, str]]:
    """The selector and the label of each variable of the dashboard that asks Prometheus."""
    for variable in DASHBOARD["templating"]["list"]:
        if variable["type"] == "query":
            found = re.fullmatch(r"label_values\((.+), (\w+)\)", variable["definition"])
            assert found
            yield filled_in(found[1]), found[2]


# A real Prometheus scrapes an instance, and its counters are what was sent.


PROMETHEUS = shutil.which("prometheus")
PROMTOOL = shutil.which("promtool")
WAITING = 30_000  # labels: some tenths of a second


def series(port: int, expression: str) -> list[dict[str, Any]]:
    """The series of an expression; none while Prometheus starts."""
    try:
        with urlopen(f"http://127.0.0.1:{port}/api/v1/query?query={quote(expression)}") as answer:
            found: list[dict[str, Any]] = json.load(answer)["data"]["result"]
            return found
    except (URLError, ConnectionError):
        return []


def value(port: int, expression: str) -> float:
    """The value of an expression; not a number while there is none."""
    found = series(port, expression)
    return float(found[0]["value"][1]) if found else math.nan


def missing(port: int) -> list[str]:
    """The queries of the dashboard that return no data, or not the labels of their legend."""
    bad = [
        f"{query.panel}: {query.expression}"
        for query in queries()
        if not (found := series(port, query.expression))
        or not all(query.legend_labels <= set(one["metric"]) for one in found)
        or all(math.isnan(float(one["value"][1])) for one in found)
    ]
    bad += [label for selector, label in label_values() if not series(port, selector)]
    return bad


async def shows_all(port: int) -> bool:
    """Whether the dashboard has data everywhere."""
    bad = await asyncio.to_thread(missing, port)
    print("nothing to show:", *bad, sep="\n")
    return not bad


def is_log_of(log: str, *messages: str) -> bool:
    """Whether each line is an object, and each of these begins the message of one of them."""
    lines = [json.loads(line) for line in log.splitlines()]
    assert all({"time", "level", "logger", "message"} <= set(line) for line in lines)
    said = [line["message"] for line in lines]
    return all(any(line.startswith(message) for line in said) for message in messages)


def start(folder: Path, port: int) -> "subprocess.Popen[bytes]":
    """A Prometheus with the configuration in that folder."""
    assert PROMETHEUS is not None
    command = [
        PROMETHEUS,
        f"--config.file={folder / 'prometheus.yml'}",
        f"--storage.tsdb.path={folder / 'data'}",
        f"--web.listen-address=127.0.0.1:{port}",
    ]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def complaints(text: str) -> list[str]:
    """What promtool finds wrong with our metrics' names and help."""
    if PROMTOOL is None:
        return []
    command = [PROMTOOL, "check", "metrics"]
    checked = subprocess.run(command, input=text, text=True, capture_output=True)
    said = checked.stdout + checked.stderr
    return [line for line in said.splitlines() if line.startswith("sbic_")]


@pytest.mark.skipif(PROMETHEUS is None, reason="prometheus is not installed")
async def test_its_counters_agree_with_what_was_sent(
    broker: EmbeddedBroker, tmp_path: Path
) -> None:
    here = await project(broker)
    triples = crowd(labels=500, tasks=50, workers=30, seed=23)
    port = free_port()
    settings = {"SBIC_BUDGET": "100000", "SBIC_BLOCK_BELOW": "0.2", "SBIC_LOG_FORMAT": "json"}
    with instance(broker.url, here.settings.prefix, **settings) as running:
        running.wait_ready()
        target = running.url.removeprefix("http://")
        (tmp_path / "prometheus.yml").write_text(
            "global: {scrape_interval: 1s}\n"
            f"scrape_configs: [{{job_name: sbic, static_configs: [{{targets: ['{target}']}}]}}]\n"
        )
        prometheus = start(tmp_path, port)
        try:
            await until(lambda: asyncio.to_thread(lambda: value(port, "sbic_ready") == 1))
            await here.send([*triples, *triples[:40], ("t1", "w1", 0)])
            async with here.producer() as producer:
                for _ in range(3):
                    await producer.send_and_wait(here.topics.labels.name, b"no label", key=b"w1")
                await here.until_counted(len(triples))
                request = encode_request("w1")
                await producer.send_and_wait(here.topics.requests.name, request, key=b"w1")

            # repeats, the skip and the rubbish are labels that were taken, too
            taken, votes = len(triples) + 40 + 1 + 3, len(triples) + 40
            expected: dict[str, float] = {
                'sbic_labels_total{outcome="counted"}': len(triples),
                'sbic_labels_total{outcome="repeated"}': 40,
                'sbic_labels_total{outcome="skipped"}': 1,
                'sbic_labels_total{outcome="rejected"}': 3,
                'sbic_labels_total{outcome="forwarded"}': 0,
                'sbic_dead_letters_total{reason="not-json"}': 3,
                "sbic_votes_total": votes,
                "sbic_label_to_posterior_seconds_count": votes,
                'sbic_batch_records_sum{stage="worker"}': taken,
                'sbic_batch_records_sum{stage="task"}': votes,
                "sbic_tasks": len({task for task, _, _ in triples}),
                "sbic_workers": len({worker for _, worker, _ in triples}),
                "sbic_estimates_lag_records": 0,
                "sum(sbic_lag_records)": 0,
                "sum(sbic_lag_seconds)": 0,
                "sbic_ready": 1,
                f'sbic_build_info{{prefix="{here.settings.prefix}"}}': 1,
                "sbic_budget_left_labels": 100_000 - len(triples),
                'sbic_own_tasks{state="open"}': len({task for task, _, _ in triples}),
                'sbic_task_confidence_bucket{le="+Inf"}': len({task for task, _, _ in triples}),
                'sbic_assignments_total{outcome="uncertainty"}': 1,
                "sbic_rebalance_seconds_count": value(port, "sbic_rebalances_total"),
                "sbic_expulsions_total": 0,
            }

            async def agree() -> bool:
                expected["sbic_posteriors_total"] = len(
                    await here.read(here.topics.posteriors.name)
                )
                return all(value(port, name) == count for name, count in expected.items())

            await until(agree)
            for seconds in ("sbic_recovery_seconds", 'sbic_batch_seconds_sum{stage="worker"}'):
                assert value(port, seconds) > 0
            await until(partial(shows_all, port))
        finally:
            prometheus.terminate()
            prometheus.wait(30)
        _, text = running.get("/metrics")
        log = running.log()
    ids = {task for task, _, _ in triples} | {worker for _, worker, _ in triples}
    assert not any(f'"{name}"' in text for name in ids), "an id is a label value"
    assert complaints(text) == []
    assert "_created" not in text
    assert is_log_of(
        log,
        "sbic ",
        "rebalance: ",
        "ready after ",
        "dead letter (not-json): ",
    )
    assert log.count("dead letter") == 1, "the others are counted"


async def test_a_transaction_leaves_no_lag_behind(broker: EmbeddedBroker) -> None:
    here = await project(broker)
    label = here.topics.labels.name
    async with AIOKafkaProducer(
        bootstrap_servers=here.settings.bootstrap_servers, transactional_id=here.settings.prefix
    ) as producer:
        with instance(broker.url, here.settings.prefix) as running:
            running.wait_ready()
            async with producer.transaction():
                await producer.send(label, encode_label("t1", "ann", 1), key=b"ann")
            await here.until_counted(1)

            async def nothing_waits() -> bool:
                metrics = await asyncio.to_thread(running.metrics)
                lags = [name for name in metrics if name.startswith("sbic_lag_")]
                assert lags
                return not any(metrics[name] for name in lags)

            await until(nothing_waits)


async def test_while_labels_wait_the_lag_tells_how_many_and_for_how_long(
    broker: EmbeddedBroker,
) -> None:
    here = await project(broker)
    topic = here.topics.labels.name
    home = partition_of(b"ann", here.settings.partitions)
    hour_ago = int(1000 * (time.time() - 3600))
    async with here.producer() as producer:
        for number in range(WAITING):
            await producer.send(
                topic,
                encode_label(f"t{number}", "ann", 1),
                key=b"ann",
                partition=home,
                timestamp_ms=hour_ago,
            )
    most = dict.fromkeys(["records", "seconds"], 0.0)
    with instance(broker.url, here.settings.prefix) as running:
        while running.get("/metrics")[0] != 200:
            assert running.process.poll() is None, running.log()
        while (metrics := running.metrics())['sbic_labels_total{outcome="counted"}'] < WAITING:
            for what in most:
                lag = metrics.get(f'sbic_lag_{what}{{partition="{home}",topic="{topic}"}}', 0.0)
                most[what] = max(most[what], lag)
    assert 0 < most["records"] <= WAITING
    assert 3600 <= most["seconds"] < 3700


async def test_the_metrics_are_there_while_an_instance_starts(broker: EmbeddedBroker) -> None:
    here = await project(broker)
    statuses = set()
    with instance(broker.url, here.settings.prefix) as running:
        while running.get("/readyz")[0] != 200:
            statuses.add(running.get("/metrics")[0])
            assert running.process.poll() is None, running.log()
        log = running.log()
    assert statuses == {0, 200}, log  # 0: the port is not open yet
