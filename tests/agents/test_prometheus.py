"""A real Prometheus scrapes an instance, and its counters are what was sent."""

import json
import shutil
import subprocess
from pathlib import Path
from urllib.error import URLError
from urllib.parse import quote
from urllib.request import urlopen

import pytest

from pipeline.broker.embedded import EmbeddedBroker
from pipeline.broker.ports import free_port
from tests.agents.crowd import crowd
from tests.agents.kafka import project, until
from tests.instances import instance

PROMETHEUS = shutil.which("prometheus")
PROMTOOL = shutil.which("promtool")


def query(port: int, expression: str) -> dict[str, float]:
    """The values of an expression, by the first label that tells them apart."""
    try:
        with urlopen(f"http://127.0.0.1:{port}/api/v1/query?query={quote(expression)}") as answer:
            found = json.load(answer)["data"]["result"]
    except (URLError, ConnectionError):
        return {}  # it is starting
    return {
        row["metric"].get("outcome", row["metric"].get("reason", "")): float(row["value"][1])
        for row in found
    }


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
    with instance(broker.url, here.settings.prefix) as running:
        running.wait_ready()
        target = running.url.removeprefix("http://")
        (tmp_path / "prometheus.yml").write_text(
            "global: {scrape_interval: 1s}\n"
            f"scrape_configs: [{{job_name: sbic, static_configs: [{{targets: ['{target}']}}]}}]\n"
        )
        prometheus = start(tmp_path, port)
        try:
            await here.send([*triples, *triples[:40], ("t1", "w1", 0)])
            async with here.producer() as producer:
                for _ in range(3):
                    await producer.send_and_wait(here.topics.labels.name, b"no label", key=b"w1")

            async def agree() -> bool:
                labels = query(port, "sbic_labels_total")
                return (
                    labels.get("counted") == len(triples)
                    and labels.get("repeated") == 40
                    and labels.get("skipped") == 1
                    and labels.get("rejected") == 3
                    and query(port, "sbic_dead_letters_total").get("not-json") == 3
                    and query(port, "sbic_label_to_posterior_seconds_count").get("", 0)
                    >= len(triples)
                )

            await until(agree)
            assert query(port, "sbic_ready") == {"": 1.0}
            assert query(port, "sum(sbic_lag_records)") == {"": 0.0}
        finally:
            prometheus.terminate()
            prometheus.wait(30)
        _, text = running.get("/metrics")
    ids = {task for task, _, _ in triples} | {worker for _, worker, _ in triples}
    assert not any(f'"{name}"' in text for name in ids), "an id is a label value"
    assert complaints(text) == []


async def test_the_metrics_are_there_while_an_instance_starts(broker: EmbeddedBroker) -> None:
    here = await project(broker)
    statuses = set()
    with instance(broker.url, here.settings.prefix) as running:
        while running.get("/readyz")[0] != 200:
            statuses.add(running.get("/metrics")[0])
            assert running.process.poll() is None, running.log()
        log = running.log()
    assert statuses == {0, 200}, log  # 0: nobody listens yet
