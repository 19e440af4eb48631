"""Standard output that cannot be written is a one-line error; a closed pipe is silent."""

import subprocess
import sys
from pathlib import Path

import pytest

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
