import json
import subprocess
import sys
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from sbic import commands
from sbic.commands.main import COMMANDS, sbic


def test_worker_is_run_under_its_old_name_and_the_help_lists_run_alone() -> None:
    shown = CliRunner().invoke(sbic, ["--help"]).output
    lines = shown.partition("Commands:\n")[2].splitlines()
    listed = [line.split()[0] for line in lines if line[2] != " "]  # the others go on
    assert listed == list(COMMANDS)
    assert "worker" not in listed
    old, new = (CliRunner().invoke(sbic, [name, "--help"]).output for name in ("worker", "run"))
    assert old.replace("sbic worker", "sbic run") == new


@pytest.mark.parametrize("name", COMMANDS)
def test_the_help_lists_each_command_with_the_first_sentence_of_its_own(name: str) -> None:
    command = sbic.get_command(click.Context(sbic), name)
    assert command
    assert COMMANDS[name] == command.get_short_help_str(limit=1000)


def test_help_loads_no_command_and_neither_kafka_nor_numpy() -> None:
    program = (
        "import sys\n"
        "from sbic.commands.main import sbic\n"
        "sbic.main(['--help'], prog_name='sbic', standalone_mode=False)\n"
        "print(*sys.modules, file=sys.stderr)\n"
    )
    command = [sys.executable, "-c", program]
    loaded = subprocess.run(command, check=True, capture_output=True, text=True).stderr.split()
    assert {name for name in loaded if name.startswith("sbic.")} == {
        "sbic.commands",
        "sbic.commands.main",
        "sbic.foreign",
    }
    assert not {"aiokafka", "faust", "numba", "numpy", "orjson"} & set(loaded)


def test_classes_given_one_by_one_have_no_comma_in_them() -> None:
    names = ["--classes", "yes, sure", "--classes", "no"]
    ended = CliRunner().invoke(sbic, ["topics", *names])
    assert ended.exit_code == 2
    assert "given 2 times, each is one name, and 'yes, sure' has a comma" in ended.output


# Which partitions a table restores from the start, and which it keeps, after a rebalance.


def sbic_bounds(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "sbic", "bounds", *arguments], capture_output=True, text=True
    )


def test_it_prints_json_and_nothing_else() -> None:
    run = sbic_bounds("--labels-per-worker", "10", "--alpha", "4", "--beta", "3")
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
    run = sbic_bounds(*arguments)
    assert (run.returncode, run.stdout) == (2, "")
    assert reason in run.stderr
    assert run.stderr.count("\n") == 1


def test_its_help_shows_an_example() -> None:
    assert "sbic bounds --labels-per-worker 10 --alpha 4 --beta 3" in sbic_bounds("--help").stdout


# Standard output that cannot be written is a one-line error; a closed pipe is silent; no message
# controls a terminal.


SBIC = [sys.executable, "-m", "sbic"]


@pytest.fixture
def many_labels(tmp_path: Path) -> str:
    path = tmp_path / "labels.csv"
    rows = "".join(f"a-task-with-number-{number},ann,1\n" for number in range(20_000))
    path.write_text(f"task,worker,label\n{rows}")
    return str(path)


def test_a_full_disk_is_one_line(many_labels: str) -> None:
    for arguments in (["--help"], ["infer", many_labels, "--algorithm", "majority"]):
        with open("/dev/full", "wb") as full:
            ended = subprocess.run(
                [*SBIC, *arguments], stdout=full, stderr=subprocess.PIPE, text=True
            )
        assert ended.returncode == 1
        assert ended.stderr == (
            "sbic: standard output cannot be written: No space left on device\n"
        )


def test_a_closed_pipe_is_silent_with_the_status_of_sigpipe(many_labels: str) -> None:
    with subprocess.Popen(
        [*SBIC, "infer", many_labels, "--algorithm", "majority"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stdout
        assert process.stderr
        assert process.stdout.readline().startswith(b"task,")
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == 141


HOSTILE = "\x1b[2J\u202e"


@pytest.mark.parametrize(
    "arguments",
    [
        ("infer", f"{HOSTILE}.csv"),
        ("infer", "labels.csv"),
        ("infer", "labels.csv", "--columns", f"label=no {HOSTILE}"),
        ("sink", f"{HOSTILE}:x"),
        (HOSTILE,),
    ],
)
def test_no_message_controls_a_terminal(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    (tmp_path / "labels.csv").write_text(f"{HOSTILE},worker,label\nt1,ann,1\n")
    ended = subprocess.run(
        [sys.executable, "-m", "sbic", *arguments], cwd=tmp_path, capture_output=True, text=True
    )
    assert ended.returncode == 2, ended.stderr
    assert r"\x1b[2J" in ended.stderr
    assert not {"\x1b", "\u202e"} & {*ended.stderr}


def test_commands_talk_to_people_through_one_filter() -> None:
    folder = Path(commands.__file__).parent
    lines = [
        f"{path.name}: {line.strip()}"
        for path in sorted(folder.rglob("*.py"))
        for line in path.read_text().splitlines()
        if "err=True" in line and "click.confirm(" not in line
    ]
    assert lines == ['__init__.py: click.echo(printable(str(text), keep="\\n\\t"), err=True)']
