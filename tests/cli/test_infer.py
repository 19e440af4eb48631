"""`sbic infer` as it is called: what it writes where, and how it refuses."""

import csv
import io
import os
import re
import subprocess
import sys
from math import log
from pathlib import Path
from random import Random

import pytest

from sbic.infer.registry import ALGORITHMS
from tests.cli.conftest import LABELS, Sbic


def rows(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


@pytest.mark.parametrize("name", [name for name in ALGORITHMS if name != "settled-live"])
def test_every_algorithm_writes_every_task_in_order_of_first_appearance(
    sbic: Sbic, name: str
) -> None:
    ended = sbic("infer", "labels.csv", "--algorithm", name)
    assert ended.status == 0
    assert re.fullmatch(r"at rest after \d+ sweeps\n" if name == "settled" else "", ended.err)
    assert ended.out.startswith("task,log_odds,probability,prediction\n")
    assert [row["task"] for row in rows(ended.out)] == ["t1", "t2", "t3"]
    for row in rows(ended.out):
        assert (row["log_odds"] == "") == (name in ("majority", "kos", "te"))
        assert (row["probability"] == "") == (row["log_odds"] == "")


def test_fast_sbic_is_the_default_and_its_log_odds_are_exact(sbic: Sbic) -> None:
    first = rows(sbic("infer", "labels.csv", "--alpha", "3", "--prior", "0.25").out)[0]
    # ann and bob are both unknown when they answer t1: 2 log(α / β) + log(q / (1 - q))
    assert float(first["log_odds"]) == pytest.approx(2 * log(3) - log(3), abs=1e-12)
    assert float(first["probability"]) == pytest.approx(0.75)


def test_the_file_is_written_and_the_error_told(sbic: Sbic) -> None:
    ended = sbic(
        "infer", "labels.csv", "--algorithm", "majority", "--truth", "truth.csv", "-o", "out.csv"
    )
    assert ended == (0, "", "error: 0.3333 (tasks: 3)\n")
    assert [row["prediction"] for row in rows(Path("out.csv").read_text())] == ["1", "-1", "1"]
    assert sorted(os.listdir()) == ["labels.csv", "out.csv", "truth.csv"]


def test_a_tie_counts_half_and_what_is_not_in_the_error_is_told(sbic: Sbic) -> None:
    Path("labels.csv").write_text(
        "task,worker,label\nt1,ann,1\nt1,bob,-1\nt2,ann,1\nt2,ann,-1\nt3,ann,1\nt2,bob,0\n"
    )
    Path("truth.csv").write_text("task,truth\nt1,1\nt2,1\nelsewhere,1\n")
    ended = sbic("infer", "labels.csv", "--algorithm", "majority", "--truth", "truth.csv")
    assert ended.err.splitlines() == [
        "repeats not counted (a worker's first label for a task counts): 1",
        "skips: 1",
        "tasks without a truth, not in the error: 1",
        "truths of tasks without labels, not in the error: 1",
        "error: 0.2500 (tasks: 2)",
    ]


def test_shuffles_give_the_mean_and_its_standard_error_the_same_for_the_same_seed(
    sbic: Sbic,
) -> None:
    rng = Random(3)
    answers = [f"t{i},w{j},{rng.choice([1, 1, -1])}\n" for i in range(9) for j in range(7)]
    Path("labels.csv").write_text("task,worker,label\n" + "".join(answers))
    Path("truth.csv").write_text("task,truth\n" + "".join(f"t{i},1\n" for i in range(9)))
    once = ("infer", "labels.csv", "--truth", "truth.csv", "--shuffles", "20", "--seed")
    first, again, other = sbic(*once, "1"), sbic(*once, "1"), sbic(*once, "2")
    assert first == again
    assert "error over random orders: mean 0." in first.err
    assert ", standard error 0." in first.err
    assert first.err != other.err
    assert first.out == other.out, "the estimate is that of the order of the file"
    single = sbic("infer", "labels.csv", "--truth", "truth.csv", "--shuffles", "1")
    assert single.status == 0
    assert "standard error" not in single.err


def test_mc_depends_on_the_seed_alone(sbic: Sbic) -> None:
    mc = ("infer", "labels.csv", "--algorithm", "mc", "--seed")
    assert sbic(*mc, "1").out == sbic(*mc, "1").out != sbic(*mc, "2").out


def test_standard_input(sbic: Sbic) -> None:
    assert sbic("infer", "-", stdin=LABELS.encode()) == sbic("infer", "labels.csv")
    bad = sbic("infer", "-", stdin=b"task,worker,label\nt1,ann\n")
    assert bad.status == 2
    assert bad.err.startswith("sbic: standard input, line 2: has 2 fields")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["bad.csv"], "bad.csv, line 3: has 2 fields, but the header has 3"),
        (["none.csv"], "none.csv: cannot be read: No such file or directory"),
        (["labels.csv", "--algorithm", "magic"], "'magic' is not one of 'majority'"),
        (["labels.csv", "--alpha", "0"], "alpha and beta must be positive numbers, not 0 and 1"),
        (["labels.csv", "--beta", "nan"], "alpha and beta must be positive numbers"),
        (["labels.csv", "--beta", "much"], "'much' is not a valid float"),
        (["labels.csv", "--prior", "1"], "the prior of +1 must be between 0 and 1, not 1"),
        (["labels.csv", "--seed", "-1"], "-1 is not in the range x>=0"),
        (["labels.csv", "--shuffles", "3"], "--shuffles needs --truth"),
        (["labels.csv", "--truth", "bad.csv"], "bad.csv, line 1: the column 'truth' is missing"),
        (["labels.csv", "--truth", "foreign.csv"], "has the truth of none of the tasks"),
        (["labels.csv", "-o", "none/out.csv"], "the folder none does not exist"),
        (["labels.csv", "-o", "."], ".: is a folder, not a file"),
        (["labels.csv", "-o", "./labels.csv"], "would replace the input labels.csv"),
        (["-", "--truth", "-"], "only one of LABELS.csv and --truth can be standard input"),
        ([], "Missing argument 'LABELS.csv'"),
    ],
)
def test_bad_input_gets_one_line_and_status_2_and_nothing_is_written(
    sbic: Sbic, arguments: list[str], message: str
) -> None:
    Path("bad.csv").write_text("task,worker,label\nt1,ann,1\nt2,ann\n")
    Path("foreign.csv").write_text("task,truth\nelsewhere,1\n")
    before = {path: Path(path).read_text() for path in os.listdir()}
    arguments = arguments if "-o" in arguments else [*arguments, "-o", "out.csv"]
    ended = sbic("infer", *arguments)
    assert ended.status == 2
    assert message in ended.err
    assert len(ended.err.splitlines()) == 1
    assert ended.out == ""
    assert {path: Path(path).read_text() for path in os.listdir()} == before


def test_a_bad_file_leaves_the_last_estimates_alone(sbic: Sbic) -> None:
    Path("out.csv").write_text("precious")
    Path("labels.csv").write_text(LABELS + "t4,ann\n")
    assert sbic("infer", "labels.csv", "-o", "out.csv").status == 2
    assert Path("out.csv").read_text() == "precious"


def test_every_algorithm_works_without_the_research_extra(tmp_path: Path) -> None:
    (tmp_path / "labels.csv").write_text(LABELS)
    script = (
        "import sys\n"
        "sys.modules['numba'] = sys.modules['matplotlib'] = None\n"
        "from sbic.commands.main import main\n"
        "main()\n"
    )
    for name in ("fast-sbic", "sorted-sbic"):
        arguments = ["infer", str(tmp_path / "labels.csv"), "--algorithm", name]
        plain = subprocess.run(
            [sys.executable, "-c", script, *arguments], capture_output=True, text=True
        )
        assert (plain.returncode, plain.stderr) == (0, "")
        compiled = subprocess.run(
            [sys.executable, "-m", "sbic", *arguments], capture_output=True, text=True
        )
        assert [row["prediction"] for row in rows(plain.stdout)] == [
            row["prediction"] for row in rows(compiled.stdout)
        ]


def test_a_reader_that_stops_early_is_no_error(tmp_path: Path) -> None:
    path = tmp_path / "labels.csv"
    path.write_text("task,worker,label\n" + "".join(f"task-{i},ann,1\n" for i in range(20_000)))
    command = [sys.executable, "-m", "sbic", "infer", str(path), "--algorithm", "majority"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout
        assert process.stderr
        process.stdout.read(10)
        process.stdout.close()
        assert process.stderr.read() == b""


PETS = "task,worker,label\n" + "".join(
    f"t{task},{worker},{label}\n"
    for task, label in enumerate(["cat", "dog", "bird", "cat"])
    for worker in ("ann", "bob", "cy")
)


def test_settled_is_the_default_for_classes_and_tells_how_many_sweeps_it_took(
    sbic: Sbic, tmp_path: Path
) -> None:
    path = tmp_path / "pets.csv"
    path.write_text(PETS)
    status, text, notes = sbic("infer", str(path), "--workers", str(tmp_path / "workers.csv"))
    assert status == 0, notes
    rows = list(csv.DictReader(text.splitlines()))
    assert [row["prediction"] for row in rows] == ["cat", "dog", "bird", "cat"]
    assert [*rows[0]] == ["task", "prediction", "confidence", "p:bird", "p:cat", "p:dog"]
    assert re.search(r"at rest after \d+ sweeps", notes)
    workers = list(csv.DictReader((tmp_path / "workers.csv").read_text().splitlines()))
    habits = ["habit:bird", "habit:cat", "habit:dog"]
    assert [*workers[0]] == ["worker", "labels", "correct", "accuracy", "theta", *habits]
    assert [row["worker"] for row in workers] == ["ann", "bob", "cy"]
    assert float(workers[0]["theta"]) > 0.5
    assert sum(float(workers[0][name]) for name in habits) == pytest.approx(1)


def test_settled_gives_every_order_of_a_file_the_same_answer(sbic: Sbic, tmp_path: Path) -> None:
    header, *rows = PETS.splitlines()
    answers = []
    for order in (rows, rows[::-1]):
        path = tmp_path / "pets.csv"
        path.write_text("\n".join([header, *order]))
        _, text, notes = sbic("infer", str(path))
        assert "sweeps" in notes
        answers.append({row["task"]: row for row in csv.DictReader(text.splitlines())})
    for task, row in answers[0].items():
        for name in ("p:bird", "p:cat", "p:dog"):
            assert float(row[name]) == pytest.approx(float(answers[1][task][name]), abs=1e-6)
    _, _, notes = sbic("infer", str(path), "--no-settle")
    assert "sweeps" not in notes


def test_for_1_and_minus_1_workers_of_fast_sbic_have_no_theta(sbic: Sbic, tmp_path: Path) -> None:
    path = tmp_path / "labels.csv"
    path.write_text("task,worker,label\nt1,ann,1\nt1,bob,1\n")
    status, _, _ = sbic("infer", str(path), "--workers", str(tmp_path / "workers.csv"))
    assert status == 0
    lines = (tmp_path / "workers.csv").read_text().splitlines()
    assert lines[0] == "worker,labels,correct,accuracy"
    assert lines[1].startswith("ann,1,0.8")


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (["--class-prior", "0.5,0.5"], "--class-prior has 2 numbers, and there are 3 classes"),
        (["--class-prior", "0.5,0.4,0.4"], "the numbers add up to 1.3"),
        (["--class-prior", "often"], "must be learned, uniform, or numbers"),
        (["--prior", "0.3"], "settled takes --class-prior instead of --prior"),
        (["--algorithm", "majority", "--no-settle"], "are for --algorithm settled, not majority"),
        (["--algorithm", "majority", "--workers", "w.csv"], "--workers needs fast-sbic or settled"),
    ],
)
def test_options_that_do_not_fit_are_refused(
    sbic: Sbic, tmp_path: Path, options: list[str], problem: str
) -> None:
    path = tmp_path / "pets.csv"
    path.write_text(PETS)
    status, text, notes = sbic("infer", str(path), *options)
    assert (status, text) == (2, "")
    assert problem in notes
    assert notes.count("\n") == 1


def jury(tasks: int, misread: int) -> str:
    """Labels of five judges, of whom most misread the first tasks."""
    rng, lines = Random(5), ["task,worker,label"]
    for task in range(tasks):
        right, wrong = ("yes", "no") if task % 2 else ("no", "yes")
        usual, other = (wrong, right) if task < misread else (right, wrong)
        for judge in "abcde":
            lines.append(f"t{task},{judge},{usual if rng.random() < 0.85 else other}")
    return "\n".join(lines) + "\n"


def test_gold_calibrates_and_the_summary_says_what_can_be_known(sbic: Sbic, tmp_path: Path) -> None:
    labels, gold, truth = (str(tmp_path / name) for name in ("labels.csv", "gold.csv", "truth.csv"))
    Path(labels).write_text(jury(tasks=200, misread=40))
    truths = [f"t{task},{'yes' if task % 2 else 'no'}" for task in range(200)]
    Path(truth).write_text("\n".join(["task,truth", *truths]))
    Path(gold).write_text("\n".join(["task,truth", *truths[::4]]))
    _, before, alone = sbic("infer", labels, "--summary", "--truth", truth)
    assert "estimated from labels alone" in alone
    assert "share of each class" not in alone
    assert "(tasks: 200)" in alone
    status, after, notes = sbic("infer", labels, "--summary", "--truth", truth, "--gold", gold)
    assert status == 0
    assert "calibrated by 50 gold tasks" in notes
    assert re.search(r"share of each class, .* no \d+\.\d% ± \d+\.\d%, yes", notes)
    assert "(tasks: 150)" in notes, "gold is not predicted, and not in the error"
    expected = [
        float(re.search(r"expected wrong: (\d+\.\d)%", text)[1])  # type: ignore[index]
        for text in (alone, notes)
    ]
    assert expected[0] < 10 < expected[1], "a fifth is wrong, which only gold can tell"
    assert before != after
    golden = next(row for row in rows(after) if row["task"] == "t0")
    assert (golden["prediction"], float(golden["confidence"])) == ("no", 1.0)


def test_gold_of_a_class_that_no_label_has_needs_the_classes(sbic: Sbic, tmp_path: Path) -> None:
    labels, gold = tmp_path / "labels.csv", tmp_path / "gold.csv"
    labels.write_text(PETS)
    gold.write_text("task,truth\nt0,fish\n")
    status, _, notes = sbic("infer", str(labels), "--gold", str(gold))
    assert status == 2
    assert "a class that no label has: name all classes with --classes" in notes
    status, _, notes = sbic("infer", str(labels), "--algorithm", "majority", "--gold", str(gold))
    assert status == 2


def votes_in(notes: str) -> float:
    found = re.search(r"independent votes of a task: ([\d.]+)", notes)
    assert found is not None, notes
    return float(found[1])


def test_workers_of_one_group_share_votes_as_far_as_they_agree(sbic: Sbic, tmp_path: Path) -> None:
    labels, roster = str(tmp_path / "labels.csv"), tmp_path / "roster.csv"
    rng, lines = Random(3), ["task,worker,label"]
    for i in range(300):
        says = {name: "yes" if rng.random() < 0.75 else "no" for name in ("a", "b", "c", "d")}
        for name in ("copy1", "copy2"):  # of d, but for some answers
            says[name] = says["d"] if rng.random() < 0.9 else rng.choice(["yes", "no"])
        lines += [f"t{i},{name},{label}" for name, label in says.items()]
    Path(labels).write_text("\n".join(lines))
    roster.write_text("worker,group\nd,family\ncopy1,family\ncopy2,family\na,other\nb,other\n")
    status, _, alone = sbic("infer", labels, "--summary")
    assert status == 0, alone
    status, _, together = sbic("infer", labels, "--summary", "--roster", str(roster))
    assert status == 0, together
    assert 3.7 < votes_in(together) < 4.7, "four independent workers, and what copies add"
    assert votes_in(alone) < 3, "all look dependent"
    for content, problem in (
        ("worker,group\neve,family\n", "has none of the workers"),
        ("worker,price\na,-1\n", "line 2: 'price' must be"),
        ("group\nfamily\n", "worker"),
    ):
        roster.write_text(content)
        status, out, notes = sbic("infer", labels, "--roster", str(roster))
        assert (status, out) == (2, "")
        assert problem in notes
    status, _, notes = sbic(
        *("infer", labels, "--roster", str(roster), "--algorithm", "majority"),
    )
    assert status == 2
