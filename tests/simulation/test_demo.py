"""`sbic demo`: the whole pipeline on a crowd of known truth, small here."""

import re

import numpy as np
import pytest
from rich.console import Console

from sbic.classes import SIGNS
from sbic.commands.crowd import Habits, Plan, rush
from sbic.commands.demo import Screen
from sbic.commands.demo_run import Scoreboard, Scoreboards, Stage
from sbic.engine.labels import Labels
from sbic.infer.dawid_skene import majority
from sbic.infer.fast_sbic import fast_sbic
from sbic.kafka.writer import NumberedLabel, Sent
from sbic.local.java import free_port
from sbic.project.settings import Settings
from tests.projects import sbic
from tests.records.made import parsed, posterior_of

PLAN = Plan(tasks=1000, workers=300, habits=Habits(spammers=0.2))  # that of the demonstration
ACCURACY = PLAN.habits.accuracy


@pytest.mark.broker
def test_the_demo_counts_every_label_and_tells_what_it_measured() -> None:
    port = str(free_port())
    options = ("--labels", "6000", "--rate", "1000", "--seed", "3", "--gateway-port", port)
    ended = sbic(Settings(), "demo", *options)
    assert (ended.returncode, ended.stderr) == (0, "")
    text = ended.stdout
    assert re.search(r" labels +6,000 +each counted exactly once", text)
    assert re.search(r"on assigned tasks +2,000 +[1-9][\d,]* per second", text)
    assert re.search(r"labels per second +[1-9][\d,]* +4,000 more at once, to each project", text)
    for what in ("request to assignment", "label to posterior"):
        assert re.search(rf"{what} +\d+ ms +median, after a warm-up *\n +\d+ ms +99th", text)
    assert re.search(r"share of wrong predictions +2,000 labels +6,000 labels *\n", text)
    for name in ("majority vote", "Fast SBIC", "settled"):
        (errors,) = re.findall(rf" {name} +(0\.\d+) +(0\.\d+) *\n", text)
        assert 0.5 > float(errors[0]) > float(errors[1]) > 0, "it falls as labels come in"
        (in_words,) = re.findall(rf"{name} (?:got )?(\d+)[ ,]", text)
        assert int(in_words) == pytest.approx(1000 * float(errors[1]), abs=1)  # a tie is half wrong
    assert "all from the same 6,000 labels." in text
    assert f"in a browser meanwhile: http://127.0.0.1:{port}/\n" in text
    assert max(map(len, text.splitlines())) <= 80
    assert "sbic replay labels.csv --wait" in text


def test_a_rush_gives_no_worker_a_task_twice() -> None:
    truth, workers = PLAN.draw_truth("x"), PLAN.draw_workers("x")
    earlier = rush(5000, truth, workers, set(), seed=1)
    answered = {(task, worker) for task, worker, _ in earlier}
    later = rush(5000, truth, workers, answered, seed=1)
    assert len(answered | {(task, worker) for task, worker, _ in later}) == 10_000
    assert earlier == rush(5000, truth, workers, set(), seed=1)
    assert earlier != rush(5000, truth, workers, set(), seed=2)


def test_the_crowd_is_hard_for_majority_vote_and_not_for_sbic() -> None:
    truth, workers = PLAN.draw_truth("x"), PLAN.draw_workers("x")
    given = rush(60_000, truth, workers, set(), seed=0)
    labels = Labels.of_answers(given, SIGNS.names)
    known = np.array([truth[task] for task in labels.task_names])
    rng = np.random.default_rng()
    assert labels.repeats == 0
    assert majority(labels, ACCURACY, rng).error(known) > 0.15
    assert fast_sbic(labels, ACCURACY, rng).error(known) < 0.03


def test_majority_vote_has_the_labels_that_the_posteriors_count_and_no_others() -> None:
    board = Scoreboard({"t1": 1, "t2": 0})
    labels = [
        NumberedLabel("t1", "ann", 1),
        NumberedLabel("t1", "bob", 0),
        NumberedLabel("t2", "ann", 0),
    ]
    board.sent(Sent(at=1.0, partition=0, first=10, labels=labels), now=1.5)
    assert (board.counted, board.majority_error) == (0, 0.5)
    board.learn(parsed(SIGNS, posterior_of("t1", 0.7, 1, {"0": 10}, 0)), now=2.0)
    assert (board.counted, board.error, board.majority_error) == (1, 0.25, 0.25)
    board.learn(parsed(SIGNS, posterior_of("t2", -0.7, 1, {"0": 12}, 0)), now=3.0)
    assert (board.counted, board.error, board.majority_error) == (2, 0.0, 0.0)
    board.learn(parsed(SIGNS, posterior_of("t1", 0.1, 2, {"0": 11}, 0)), now=4.0)
    assert (board.counted, board.error, board.majority_error) == (3, 0.0, 0.25)
    assert board.latencies == [1.0, 2.0, 3.0]
    assert board.labels_in_posteriors == 3


def test_the_screen_fits_80_columns_and_has_the_three_errors() -> None:
    standing = Scoreboards(PLAN.draw_truth("x"))
    for number, board in enumerate(standing.boards.values()):
        board.counted = 59_000 + number
        board.latencies = [123.4]
    console = Console(width=80, force_terminal=True, color_system=None)
    screen = Screen(console, labels=60_000)
    screen(Stage("workers request tasks and answer them", True, 20_000), standing)
    with console.capture() as capture:
        console.print(screen.live.get_renderable())
    text = capture.get()
    assert "59,000 of 60,000" in text
    for name in ("majority vote", "Fast SBIC", "settled"):
        assert re.search(rf"error, {name} +█{{{59_000 * screen.width // 60_000}}} +0\.500", text)
    assert max(map(len, text.splitlines())) <= 80


@pytest.mark.parametrize("option", ["--instances", "--labels", "--rate"])
def test_numbers_out_of_range_are_refused(option: str) -> None:
    ended = sbic(Settings(), "demo", option, "0")
    assert ended.returncode == 2
    assert option in ended.stderr
