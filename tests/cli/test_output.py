"""Standard output that cannot be written is a one-line error; a closed pipe is silent; no message
controls a terminal."""

import subprocess
import sys
from pathlib import Path

import pytest

from sbic import commands

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
