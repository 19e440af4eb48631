"""`sbic demo`: the whole pipeline on a crowd of known truth, small here."""

import re

import numpy as np
import pytest

from pipeline.inference.algorithm import Prior
from pipeline.inference.fast_sbic import fast_sbic
from pipeline.inference.labels import Labels
from pipeline.inference.majority import majority
from pipeline.records.posteriors import posterior_of
from pipeline.settings import Settings
from pipeline.tools.crowd import ACCURACY, Crowd, simulated
from pipeline.tools.scoreboard import Scoreboard
from pipeline.tools.sending import Sent
from tests.tools.projects import sbic


def test_the_demo_counts_every_label_and_tells_what_it_measured() -> None:
    ended = sbic(
        Settings(), "demo", "--instances", "1", "--labels", "3000", "--rate", "1000", "--seed", "3"
    )
    assert (ended.returncode, ended.stderr) == (0, "")
    text = ended.stdout
    assert re.search(r" labels +3,000 +every one counted, none twice", text)
    assert re.search(r"labels per second +[1-9][\d,]* +2,000 sent at once", text)
    assert re.search(r"label to posterior +\d+ ms +median, at 1,000 labels per second", text)
    assert re.search(r"\d+ ms +99th percentile", text)
    # majority vote is known in advance: the labels come from the seed
    crowd = simulated(1000, 300, 3000, seed=3)
    error = majority(Labels.of(crowd.labels), Prior(), np.random.default_rng()).error(
        known_truth(crowd)
    )
    missing = (1000 - len({task for task, _, _ in crowd.labels})) / 1000
    assert f"{error * (1 - missing) + missing / 2:.3f}" in text
    assert "sbic replay labels.csv --wait" in text


def known_truth(crowd: Crowd) -> "np.typing.NDArray[np.int64]":
    """Of the tasks that have labels, in order of first appearance."""
    truth = dict(zip(crowd.tasks, crowd.truth.tolist(), strict=True))
    return np.array([truth[task] for task in Labels.of(crowd.labels).task_names])


def test_the_crowd_is_hard_for_majority_vote_and_not_for_sbic() -> None:
    crowd = simulated(tasks=1000, workers=300, labels=60_000, seed=0)
    labels, truth = Labels.of(crowd.labels), known_truth(crowd)
    rng = np.random.default_rng()
    assert labels.repeats == 0
    assert majority(labels, ACCURACY, rng).error(truth) > 0.15
    assert fast_sbic(labels, ACCURACY, rng).error(truth) < 0.03


def test_the_same_seed_is_the_same_crowd() -> None:
    one, same, other = (simulated(50, 20, 100, seed).labels for seed in (1, 1, 2))
    assert one == same
    assert one != other


def test_majority_vote_has_the_labels_that_the_posteriors_count_and_no_others() -> None:
    crowd = Crowd(["t1", "t2"], np.array([1, -1]), 2, [])
    board = Scoreboard(crowd)
    labels = [("t1", "ann", 1), ("t1", "bob", -1), ("t2", "ann", -1)]
    board.sent(Sent(at=1.0, partition=0, first=10, labels=labels), now=1.5)
    assert (board.counted, board.majority_error) == (0, 0.5)
    board.learn(posterior_of("t1", 0.7, 1, {"0": 10}, 0), now=2.0)
    assert (board.counted, board.error, board.majority_error) == (1, 0.25, 0.25)
    board.learn(posterior_of("t2", -0.7, 1, {"0": 12}, 0), now=3.0)
    assert (board.counted, board.error, board.majority_error) == (2, 0.0, 0.0)
    board.learn(posterior_of("t1", 0.1, 2, {"0": 11}, 0), now=4.0)
    assert (board.counted, board.error, board.majority_error) == (3, 0.0, 0.25)
    assert board.latencies == [1.0, 2.0, 3.0]
    assert board.labels_in_posteriors() == 3


@pytest.mark.parametrize("option", ["--instances", "--labels", "--rate"])
def test_numbers_out_of_range_are_refused(option: str) -> None:
    ended = sbic(Settings(), "demo", option, "0")
    assert ended.returncode == 2
    assert option in ended.stderr
