"""A project with a scale: through Kafka, HTTP and files alike, and under a recount."""

import asyncio
from pathlib import Path

from sbic.local.broker import EmbeddedBroker
from tests.gateway.client import GatewayClient, HttpAnswer, new_project, running_gateway
from tests.instances import instance
from tests.projects import sbic, write_labels

WORKERS, TASKS = 6, 12


def grade(task: int, worker: int) -> int:
    """Worker 0 is a grade too generous, and worker 5 always says 3."""
    truth = task % 5 + 1
    return 3 if worker == 5 else min(truth + 1, 5) if worker == 0 else truth


async def test_ratings_through_kafka_http_and_files_and_under_a_recount(
    broker: EmbeddedBroker, tmp_path: Path
) -> None:
    stars = await new_project(broker, scale="1..5", algorithm="settled")
    rows = [(f"t{i}", f"w{j}", grade(i, j)) for i in range(TASKS) for j in range(WORKERS)]
    half = len(rows) // 2
    with instance(broker.url, stars.prefix) as running:
        await asyncio.to_thread(running.wait_ready)
        async with running_gateway([stars]) as gateway:
            await gateway.until_ready()
            posted = [{"task": t, "worker": w, "label": x} for t, w, x in rows[:half]]
            assert (await gateway.post("/labels", posted)).status == 200
            off = await gateway.post("/labels", {"task": "t0", "worker": "w9", "label": 6})
            assert off.status == 422
            assert "one of 1, 2, 3, 4, 5, 0 or null" in str(off.json)
            gold = await gateway.post("/tasks", {"task": "t0", "gold": 9})
            assert gold.status == 422
            assert (await gateway.post("/tasks", {"task": "t1", "gold": 2})).status < 300
            await asyncio.to_thread(_replay, stars, tmp_path, rows[half:])
            await _counted(gateway, len(rows))
            first = await _check_tasks(gateway)
            worker = await gateway.get("/workers/w0")
            assert worker.json["bias"] > (await gateway.get("/workers/w1")).json["bias"]
            status = (await gateway.get("/status")).json
            assert status["settings"]["scale"] == "1..5"
            assert (await gateway.get("/projects")).json["projects"][0]["classes"] == [
                1,
                2,
                3,
                4,
                5,
            ]

            # a rule that everybody follows at once
            changed = await asyncio.to_thread(sbic, stars, "project", "set", "stop_width=1")
            assert changed.returncode == 0, changed.stderr
            await gateway.until(
                "/tasks/t2", lambda found: found.json["status"] == "closed", deadline=60
            )
            assert (await gateway.get("/tasks/t2")).json["reason"] == "confident"
            exported = await asyncio.to_thread(sbic, stars, "export", "posteriors")
            header, *lines = exported.stdout.splitlines()
            assert header.startswith("task,prediction,confidence,mean,median,interval_low,")
            assert len(lines) == TASKS
            labels = (await asyncio.to_thread(sbic, stars, "export", "labels")).stdout
            assert sorted(labels.splitlines()[1:]) == sorted(f"{t},{w},{x}" for t, w, x in rows)
        assert running.terminate() == 0
    recounted = await asyncio.to_thread(sbic, stars, "project", "recount")
    assert recounted.returncode == 0, recounted.stderr
    with instance(broker.url, stars.prefix) as running:
        await asyncio.to_thread(running.wait_ready)
        async with running_gateway([stars]) as gateway:
            await gateway.until_ready()
            await _counted(gateway, len(rows))
            again = await _check_tasks(gateway)
            for task, mean in first.items():
                assert abs(again[task] - mean) < 1e-3
        assert running.terminate() == 0


def _replay(stars: object, folder: Path, rows: list[tuple[str, str, int]]) -> None:
    path = write_labels(folder / "stars.csv", [*rows, ("t0", "w9", 0)])  # 0 is a skip
    done = sbic(stars, "replay", str(path))  # type: ignore[arg-type]
    assert done.returncode == 0, done.stderr
    bad = write_labels(folder / "bad.csv", [("t0", "w9", 6)])
    refused = sbic(stars, "replay", str(bad))  # type: ignore[arg-type]
    assert refused.returncode == 2
    assert "the label '6' is not one of the classes of the project: 1, 2, 3, 4, 5" in refused.stderr


async def _counted(gateway: GatewayClient, labels: int) -> None:
    def is_done(found: HttpAnswer) -> bool:
        return bool(
            found.json["labels"]["counted"] == labels
            and found.json["settled"]["is_settled"] is True
        )

    await gateway.until("/status", is_done, deadline=60)


async def _check_tasks(gateway: GatewayClient) -> dict[str, float]:
    """Check the rating of each task; return the means."""
    means = {}
    for i in range(TASKS):
        found = (await gateway.get(f"/tasks/t{i}")).json
        truth = i % 5 + 1
        assert found["prediction"] == found["median"] == truth
        low, high = found["interval"]
        assert low <= truth <= high
        means[f"t{i}"] = found["mean"]
    return means
