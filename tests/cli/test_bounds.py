import json
import subprocess
import sys

import pytest


def sbic(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "sbic", "bounds", *arguments], capture_output=True, text=True
    )


def test_it_prints_json_and_nothing_else() -> None:
    run = sbic("--labels-per-worker", "10", "--alpha", "4", "--beta", "3")
    assert (run.returncode, run.stderr) == (0, "")
    assert json.loads(run.stdout) == pytest.approx(
        {
            "F_fast": 0.9670823334,
            "F_sorted": 0.9527049329,
            "G_fast": 0.1337102480,
            "G_sorted": 0.1932211384,
        },
        abs=5e-11,
    )


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ([], "--labels-per-worker"),
        (["--labels-per-worker", "0"], "1<=x<=5000"),
        (["--labels-per-worker", "ten"], "'ten' is not a valid integer"),
        (["--labels-per-worker", "10", "--alpha", "0"], "alpha and beta must be positive"),
        (["--labels-per-worker", "10", "--beta", "nan"], "alpha and beta must be positive"),
    ],
)
def test_bad_input_gets_one_line_and_status_2(arguments: list[str], reason: str) -> None:
    run = sbic(*arguments)
    assert (run.returncode, run.stdout) == (2, "")
    assert reason in run.stderr
    assert run.stderr.count("\n") == 1


def test_its_help_shows_an_example() -> None:
    assert "sbic bounds --labels-per-worker 10 --alpha 4 --beta 3" in sbic("--help").stdout
