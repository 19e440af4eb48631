"""What a stop rule saves: tasks that are sure get no more labels, and the error stays."""

from dataclasses import replace
from math import log
from pathlib import Path

import numpy as np
from click.testing import CliRunner

from sbic.commands.main import sbic
from sbic.engine.labels import Prior
from sbic.infer.fast_sbic import fast_sbic
from sbic.research.running import Case
from sbic.research.sizing import Costs, simulate, size, smallest
from sbic.research.stopping import evenly, measure, stopped
from tests.inference.crowds import random_crowd, real_crowds


def test_a_task_gets_every_label_until_it_is_sure_and_none_after() -> None:
    labels = random_crowd(tasks=60, workers=40, labels_per_worker=20, seed=1)
    asked, estimate = stopped(labels, Prior(), 0.99)
    asked_labels = labels.in_order(asked)
    # the estimate is that of Algorithm 1 on the labels asked for
    same = fast_sbic(asked_labels, Prior(), np.random.default_rng())
    np.testing.assert_allclose(estimate.score, same.score, atol=1e-9)
    limit = log(0.99 / 0.01)
    sure = np.abs(estimate.score) >= limit
    assert 0 < sure.sum() < labels.tasks
    for task in range(labels.tasks):
        given = np.flatnonzero(labels.task == task)
        used = asked[labels.task[asked] == task]
        assert used.tolist() == given[: len(used)].tolist(), "in order, without a gap"
        if len(used) < len(given):
            assert sure[task]
        # without the last label asked for it was not sure yet
        last = int(np.flatnonzero(asked == used[-1])[0])
        before = fast_sbic(asked_labels.in_order(np.arange(last)), Prior(), np.random.default_rng())
        assert abs(before.score[task]) < limit


def test_a_rule_that_nothing_reaches_changes_nothing() -> None:
    labels = random_crowd(tasks=30, workers=20, labels_per_worker=10, seed=2)
    asked, estimate = stopped(labels, Prior(), 1 - 1e-15)
    assert asked.tolist() == list(range(len(labels)))
    all_of_them = fast_sbic(labels, Prior(), np.random.default_rng())
    np.testing.assert_allclose(estimate.score, all_of_them.score, atol=1e-9)


def test_an_even_share_differs_by_one_label_at_most() -> None:
    labels = random_crowd(tasks=10, workers=30, labels_per_worker=5, seed=3)
    for count in (1, 17, 40):
        chosen = evenly(labels, count)
        counts = np.bincount(labels.task[chosen], minlength=10)
        there = np.bincount(labels.task, minlength=10)
        assert len(set(chosen.tolist())) == count
        short = counts < counts.max() - 1
        assert (counts[short] == there[short]).all(), "only a task that has no more gets fewer"


def test_a_fifth_of_the_labels_of_rte_are_saved_at_no_loss() -> None:
    rng = np.random.default_rng(5)
    case: Case = {"set": "rte", "confidence": 0.99}
    runs = [measure(str(real_crowds()), case, rng) for _ in range(10)]
    mean = {name: np.mean([run[name] for run in runs]) for name in runs[0]}
    assert 6000 < mean["labels"] < 6300  # of 8000
    assert mean["error"] < mean["error_of_all"] + 0.003
    assert mean["majority_error"] > 0.115


def test_the_command_prints_the_table_and_saves_it(tmp_path: Path) -> None:
    folder = tmp_path / "crowds"
    folder.mkdir()
    labels = random_crowd(tasks=20, workers=15, labels_per_worker=12, seed=4)
    rows = zip(labels.task, labels.worker, labels.label, strict=True)
    text = "".join(f"t{task},w{worker},{label}\n" for task, worker, label in rows)
    (folder / "birds.labels.csv").write_text("task,worker,label\n" + text)
    truth = "".join(f"t{task},1\n" for task in range(20))
    (folder / "birds.truth.csv").write_text("task,truth\n" + truth)
    arguments = ["experiment", "stopping", "--data", str(folder), "--set", "birds"]
    arguments += ["--confidence", "0.9", "--runs", "2", "--jobs", "1", "--out", str(tmp_path)]
    ended = CliRunner().invoke(sbic, arguments)
    assert ended.exit_code == 0, ended.output
    assert "mean over 2 random orders" in ended.output
    header, row = (tmp_path / "stopping-birds.csv").read_text().splitlines()
    assert header.startswith("confidence,labels,of_labels,error")
    assert row.startswith("0.9,")
    assert row.endswith(",2")


# The simulation behind the page on sizing.


COSTS = Costs(label=10.0, vote=2.0, told=1.0, tell=0.5, hear=1.0)


def test_one_instance_is_as_busy_as_its_labels_cost() -> None:
    load = simulate(20_000, 1, COSTS)
    assert abs(load.busiest - 0.2) < 0.01
    assert load.keeps_up


def test_an_instance_with_more_than_it_can_do_falls_behind() -> None:
    load = simulate(200_000, 1, COSTS)
    assert load.busiest > 0.99
    assert load.behind > 1
    assert not load.keeps_up


def test_more_instances_help_until_hearing_of_all_tasks_takes_all_of_the_time() -> None:
    few, many = simulate(100_000, 2, COSTS), simulate(100_000, 8, COSTS)
    assert many.busiest < few.busiest
    assert smallest(1_000_000, COSTS) is None
    found = smallest(1_000_000, replace(COSTS, hear=0.1))
    assert found is not None
    assert found.instances > 10


def test_a_label_is_kept_where_its_worker_is_and_where_its_task_is() -> None:
    alone, shared = size(1_000, 1e6, COSTS), size(150_000, 1e6, COSTS)
    assert alone.memory == COSTS.memory * 1e6
    assert shared.load is not None
    instances = shared.load.instances
    assert shared.memory == COSTS.memory * 1e6 * (2 - 1 / instances) / instances


def test_the_command_prints_a_row_for_each_rate_and_says_what_is_wrong() -> None:
    told = CliRunner().invoke(sbic, ["sizing", "--rate", "1000,20000"])
    assert told.exit_code == 0
    assert "1,000" in told.output
    assert "20,000" in told.output
    refused = CliRunner().invoke(sbic, ["sizing", "--rate", "fast"])
    assert refused.exit_code != 0
