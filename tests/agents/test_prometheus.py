"""A real Prometheus scrapes an instance, and its counters are what was sent."""

import asyncio
import json
import math
import shutil
import subprocess
import time
from functools import partial
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.parse import quote
from urllib.request import urlopen

import pytest
from aiokafka import AIOKafkaProducer

from sbic.local.broker import EmbeddedBroker
from sbic.local.java import free_port
from sbic.wire.assignments import encode_request
from sbic.wire.labels import encode_label
from sbic.wire.partitions import partition_of
from tests.agents.crowd import crowd
from tests.agents.dashboard import label_values, queries
from tests.agents.kafka import project, until
from tests.instances import instance

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
