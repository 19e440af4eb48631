"""A simulated crowd at work: who comes when, who gets what, and what comes of it."""

from statistics import fmean

import numpy as np
import pytest

from sbic.engine.labels import Labels, standard_error
from sbic.infer.dawid_skene import majority
from sbic.infer.fast_sbic import fast_sbic
from sbic.infer.registry import ONLINE
from sbic.research.figure1 import majority_error
from sbic.research.simulated import (
    ARRIVALS,
    PRIOR,
    SimulatedRun,
    draw_crowd,
    uncertainty_run,
    uniform_run,
)


def rng(seed: int = 1) -> np.random.Generator:
    return np.random.default_rng(seed)


def error(labels_per_task: int, arrival: str, seed: int, algorithm: str | None = None) -> float:
    """Of 200 tasks: of majority under the uniform policy, or of an algorithm under uncertainty."""
    generator = rng(seed)
    crowd = draw_crowd(200, labels_per_task, 10, arrival, generator)
    truth = (crowd.truth + 1) // 2
    if algorithm is None:
        simulation = uniform_run(crowd, generator)
        simulation.advance(len(crowd.right))
        return majority(simulation.labels(), PRIOR, generator).error(truth)
    simulation, online = uncertainty_run(algorithm, crowd, generator)
    simulation.advance(len(crowd.right))
    return online.estimate().error(truth)


@pytest.mark.parametrize("arrival", ARRIVALS)
def test_every_worker_of_a_crowd_gives_as_many_labels(arrival: str) -> None:
    crowd = draw_crowd(100, 6, 10, arrival, rng())
    assert crowd.workers == 60
    assert np.bincount(crowd.worker).tolist() == [10] * 60


def test_workers_come_in_blocks_or_in_turns() -> None:
    blocks = draw_crowd(100, 6, 10, "blocks", rng()).worker
    assert blocks.tolist() == sorted(blocks)
    rounds = draw_crowd(100, 6, 10, "interleaved", rng()).worker.reshape(10, 60)
    assert all(sorted(each) == list(range(60)) for each in rounds.tolist())
    assert len({tuple(each) for each in rounds.tolist()}) == 10


def test_workers_are_right_as_often_as_their_prior_says_and_some_more_often_than_others() -> None:
    crowd = draw_crowd(10_000, 10, 10, "blocks", rng())
    right = (crowd.right.reshape(-1, 10) > 0).mean(axis=1)
    assert right.mean() == pytest.approx(4 / 7, abs=4 * right.std() / 100)
    # Beta-binomial: p (1 - p) (α + β + L) / (α + β + 1) / L
    assert right.var() == pytest.approx(4 / 7 * 3 / 7 * 17 / 8 / 10, rel=0.1)


def pairs(labels: Labels) -> set[tuple[int, int]]:
    return set(zip(labels.task.tolist(), labels.worker.tolist(), strict=True))


@pytest.mark.parametrize("arrival", ARRIVALS)
@pytest.mark.parametrize("name", [*ONLINE, "uniform"])
def test_no_worker_gets_a_task_twice(name: str, arrival: str) -> None:
    crowd = draw_crowd(12, 8, 10, arrival, rng())
    if name == "uniform":
        simulation: SimulatedRun = uniform_run(crowd, rng())
    else:
        simulation, _ = uncertainty_run(name, crowd, rng())
    simulation.advance(len(crowd.right))
    labels = simulation.labels()
    assert len(pairs(labels)) == len(labels) == 96


@pytest.mark.parametrize("arrival", ARRIVALS)
def test_the_uniform_policy_gives_every_task_as_many_labels(arrival: str) -> None:
    crowd = draw_crowd(100, 7, 10, arrival, rng())
    simulation = uniform_run(crowd, rng())
    for labels_per_task in (2, 7):
        simulation.advance(100 * labels_per_task)
        labels = simulation.labels()
        assert np.bincount(labels.task).tolist() == [labels_per_task] * 100
        assert np.array_equal(labels.worker, crowd.worker[: len(labels)])
        assert np.array_equal(labels.label, crowd.right[: len(labels)] * crowd.truth[labels.task])


@pytest.mark.parametrize("arrival", ARRIVALS)
def test_fast_sbic_in_a_run_is_fast_sbic_on_its_labels(arrival: str) -> None:
    crowd = draw_crowd(100, 12, 10, arrival, rng())
    simulation, online = uncertainty_run("fast-sbic", crowd, rng())
    for count in (500, 1200):
        simulation.advance(count)
        offline = fast_sbic(simulation.labels(), PRIOR, rng()).score
        assert online.score == pytest.approx(offline, abs=1e-9)


@pytest.mark.parametrize("name", ONLINE)
def test_a_run_of_the_same_seed_is_the_same(name: str) -> None:
    runs = []
    for seed in (3, 3, 4):
        crowd = draw_crowd(30, 4, 5, "blocks", rng(2))
        simulation, online = uncertainty_run(name, crowd, rng(seed))
        simulation.advance(len(crowd.right))
        runs.append((simulation.labels().task.tolist(), online.score.tolist()))
    assert runs[0] == runs[1] != runs[2]


def test_majority_under_the_uniform_policy_errs_as_often_as_a_binomial_says() -> None:
    for labels_per_task in (5, 10):
        errors = [error(labels_per_task, "blocks", seed) for seed in range(60)]
        spread = standard_error(errors)
        assert spread is not None
        assert spread < 0.01
        expected = majority_error(labels_per_task, 4 / 7)
        assert fmean(errors) == pytest.approx(expected, abs=4 * spread)


def test_labels_where_least_is_known_are_worth_more_than_labels_anywhere() -> None:
    uniform = fmean(error(20, "blocks", seed) for seed in range(12))
    uncertainty = fmean(error(20, "blocks", seed, "majority") for seed in range(12))
    assert uncertainty < uniform - 0.03  # 0.204 and 0.263 in the long run


def test_fast_sbic_errs_less_where_workers_take_turns() -> None:
    blocks, turns = (
        fmean(error(20, arrival, seed, "fast-sbic") for seed in range(12)) for arrival in ARRIVALS
    )
    assert turns < blocks - 0.03  # 0.123 and 0.187 in the long run
