"""A simulated crowd at work: who comes when, who gets what, and what comes of it."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from statistics import fmean
from time import monotonic

import numpy as np
import pytest

from sbic.engine.labels import Labels, standard_error
from sbic.files.tables import BadFile
from sbic.infer.dawid_skene import majority
from sbic.infer.fast_sbic import fast_sbic
from sbic.infer.registry import ONLINE
from sbic.research.figure1 import majority_error
from sbic.research.running import Case, Journal, Result, generator, run
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


# A run that is stopped goes on where it was, and its result does not depend on how it ran.


CASES: list[Case] = [{"name": "draw", "run": number} for number in range(6)]


def draw(case: Case, rng: np.random.Generator) -> Result:
    """What a case makes of its generator."""
    return {"value": float(rng.random()), "run": case["run"]}  # type: ignore[dict-item]


def draw_in_process(case: Case, rng: np.random.Generator) -> Result:
    return {"pid": os.getpid(), "value": float(rng.random())}


class Stopped(Exception):
    """The run is over before its end."""


class Counting:
    """Draws, counts, and stops at a given case."""

    def __init__(self, stop_at: int | None = None) -> None:
        self.runs: list[object] = []
        self._stop_at = stop_at

    def __call__(self, case: Case, rng: np.random.Generator) -> Result:
        if case["run"] == self._stop_at:
            raise Stopped
        self.runs.append(case["run"])
        return draw(case, rng)


def run_draws(work: object, path: Path, seed: int = 1, jobs: int = 1) -> list[Result]:
    return run(work, CASES, seed=seed, jobs=jobs, journal=path, title="Draws")  # type: ignore[arg-type]


def test_results_come_in_the_order_of_the_cases_and_differ_between_cases(tmp_path: Path) -> None:
    results = run_draws(draw, tmp_path / "j")
    assert [result["run"] for result in results] == [0, 1, 2, 3, 4, 5]
    assert len({result["value"] for result in results}) == 6


def test_the_jobs_change_nothing_but_the_processes(tmp_path: Path) -> None:
    one = run_draws(draw_in_process, tmp_path / "one", jobs=1)
    two = run_draws(draw_in_process, tmp_path / "two", jobs=2)
    assert [result["value"] for result in one] == [result["value"] for result in two]
    assert {result["pid"] for result in one} == {os.getpid()}
    assert os.getpid() not in {result["pid"] for result in two}


def test_a_stopped_run_goes_on_where_it_was(tmp_path: Path) -> None:
    with pytest.raises(Stopped):
        run_draws(Counting(stop_at=4), tmp_path / "j")
    rest = Counting()
    results = run_draws(rest, tmp_path / "j")
    assert rest.runs == [4, 5]
    assert results == run_draws(Counting(), tmp_path / "fresh")


def test_a_line_cut_off_by_a_kill_is_run_again(tmp_path: Path) -> None:
    path = tmp_path / "j"
    whole = run_draws(draw, path)
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:3]) + lines[3][:-9])
    rest = Counting()
    assert run_draws(rest, path) == whole
    assert rest.runs == [3, 4, 5]
    assert run_draws(Counting(stop_at=0), path) == whole, "all six are in the journal now"


def test_another_seed_and_another_case_are_not_taken_from_the_journal(tmp_path: Path) -> None:
    first = run_draws(draw, tmp_path / "j", seed=1)
    second = run_draws(draw, tmp_path / "j", seed=2)
    assert first != second
    assert run_draws(Counting(stop_at=0), tmp_path / "j", seed=1) == first


def test_a_case_draws_the_same_whatever_else_is_run(tmp_path: Path) -> None:
    alone = run(draw, CASES[3:4], seed=1, jobs=1, journal=tmp_path / "a", title="")
    assert alone == run_draws(draw, tmp_path / "b")[3:4]
    assert generator(1, {"a": 1, "b": 2}).random() == generator(1, {"b": 2, "a": 1}).random()


def test_a_journal_that_cannot_be_written_is_told_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(BadFile, match="cannot be written"):
        run_draws(draw, tmp_path / "file" / "j")


def test_a_result_is_in_the_file_as_soon_as_it_is_added(tmp_path: Path) -> None:
    with Journal(tmp_path / "j", seed=5) as journal:
        journal.add({"run": 1}, {"error": 0.1})
        (line,) = (tmp_path / "j").read_text().splitlines()
    assert json.loads(line) == {"seed": 5, "case": {"run": 1}, "result": {"error": 0.1}}


def is_running(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs /proc")
def test_a_killed_run_leaves_no_process_behind_and_can_go_on(tmp_path: Path) -> None:
    path = tmp_path / "j"
    script = (
        "from pathlib import Path\n"
        "from sbic.research.running import run\n"
        "from tests.experiments.test_simulation import draw_in_process\n"
        "if __name__ == '__main__':\n"
        "    cases = [{'run': number} for number in range(100_000)]\n"
        f"    run(draw_in_process, cases, seed=1, jobs=2, journal=Path({str(path)!r}), title='')\n"
    )
    deadline = monotonic() + 60
    with subprocess.Popen([sys.executable, "-c", script], stderr=subprocess.DEVNULL) as process:
        while not path.exists() or path.read_bytes().count(b"\n") < 20:
            assert monotonic() < deadline
            assert process.poll() is None
        process.send_signal(signal.SIGKILL)
    lines = path.read_text().splitlines()[:20]
    pids = {int(json.loads(line)["result"]["pid"]) for line in lines}
    while any(is_running(pid) for pid in pids):
        assert monotonic() < deadline, "a process of the pool outlives the run"
    cases: list[Case] = [{"run": number} for number in range(10)]
    results = run(draw_in_process, cases, seed=1, jobs=1, journal=path, title="")
    assert [result["value"] for result in results] == [
        generator(1, case).random() for case in cases
    ]
