"""Metrics of timestamps, tasks and leases, without a broker."""

import time
from collections.abc import Sequence

import numpy as np
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
from sbic.runtime.metrics import Metrics
from sbic.wire.assignments import AssignmentId, AssignmentRecord

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
