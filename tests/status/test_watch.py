"""`sbic watch`: every change, as a table for a person and as JSON for a program."""

import asyncio
import fcntl
import json
import os
import pty
import signal
import struct
import subprocess
import sys
import termios
import time

import pytest
from rich.console import Console

from sbic.classes import SIGNS, Classes
from sbic.client import Posterior
from sbic.project.settings import Settings
from sbic.project.topics import Topics
from sbic.status.watch import Board
from tests.projects import environment, write
from tests.records.made import encode_posterior, named_posterior_of, parsed, posterior_of

PETS = Classes.parse("cat,dog,bird")
WATCH = [sys.executable, "-m", "sbic", "watch"]


def posterior(task: str, log_odds: float, labels: int = 1) -> Posterior:
    return posterior_of(task, log_odds, labels, {"0": labels}, 1700000000000)


def named(task: str, probabilities: list[float], labels: int = 1) -> Posterior:
    return named_posterior_of(PETS, task, probabilities, labels, {"0": labels}, 1700000000000)


def publish(settings: Settings, *posteriors: Posterior) -> None:
    records = [(p["task"].encode(), encode_posterior(p)) for p in posteriors]
    asyncio.run(write(settings, Topics(settings).posteriors.name, records))


def test_into_a_pipe_a_line_of_json_for_each_change_and_ctrl_c_ends_with_0(
    project: Settings,
) -> None:
    before: list[Posterior] = [posterior("t1", 0.5), posterior("t1", 1.5)]
    publish(project, *before, named("t1", [0.25, 0.5, 0.25]))  # of another project
    asyncio.run(write(project, Topics(project).posteriors.name, [(b"t1", b"a stranger's")]))
    with subprocess.Popen(
        [*WATCH, "--from-start"], env=environment(project), stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout
        assert [json.loads(process.stdout.readline()) for _ in before] == before
        later = posterior("t2", -0.25)
        publish(project, later)
        assert json.loads(process.stdout.readline()) == later
        process.send_signal(signal.SIGINT)
        assert process.stdout.read() == ""
    assert process.returncode == 0


def test_into_a_pipe_also_where_classes_have_names(pets: Settings) -> None:
    before: list[Posterior] = [named("t1", [0.25, 0.5, 0.25]), named("t2", [0.5, 0.25, 0.25])]
    publish(pets, posterior("t1", 0.5), *before)  # the first of another project
    with subprocess.Popen(
        [*WATCH, "--from-start"], env=environment(pets), stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout
        assert [json.loads(process.stdout.readline()) for _ in before] == before
        process.send_signal(signal.SIGINT)
        assert process.stdout.read() == ""
    assert process.returncode == 0


def test_in_a_terminal_a_table_that_follows_the_changes(project: Settings) -> None:
    changes = posterior("the-first", 2.0), posterior("the-second", -2.0)
    screen = watched_in_a_terminal(project, *changes)
    assert b"the-first" in screen
    assert b"0.881" in screen


def test_in_a_terminal_a_table_also_where_classes_have_names(pets: Settings) -> None:
    changes = named("the-first", [0.25, 0.625, 0.125]), named("the-second", [0.5, 0.25, 0.25])
    screen = watched_in_a_terminal(pets, *changes)
    assert b"dog" in screen
    assert b"0.625" in screen


def watched_in_a_terminal(project: Settings, *changes: Posterior) -> bytes:
    """What `sbic watch` shows of these two, which come while it runs."""
    ours, its = pty.openpty()
    fcntl.ioctl(its, termios.TIOCSWINSZ, struct.pack("HHHH", 30, 100, 0, 0))
    process = subprocess.Popen(
        [*WATCH, "--from-start"],
        env=environment(project) | {"TERM": "xterm"},
        stdin=its,
        stdout=its,
        stderr=its,
    )
    os.close(its)
    try:
        screen = read_until(ours, b"no change yet")
        publish(project, *changes)
        screen = read_until(ours, b"2 changes of 2 tasks")
        process.send_signal(signal.SIGTERM)
        read_until(ours, b"\x1b[?1049l")  # the terminal is as it was before
        assert process.wait(30) == 0
        return screen
    finally:
        process.kill()
        process.wait()
        os.close(ours)


def read_until(terminal: int, text: bytes, deadline: float = 30) -> bytes:
    os.set_blocking(terminal, False)
    seen = b""
    last = time.monotonic() + deadline
    while text not in seen:
        assert time.monotonic() < last, seen.decode(errors="replace")
        try:
            seen += os.read(terminal, 1 << 16)
        except BlockingIOError:
            time.sleep(0.02)
    return seen


def add(board: Board, *records: Posterior) -> None:
    board.add([parsed(SIGNS, record) for record in records])


def shown(board: Board, height: int, width: int = 90) -> str:
    console = Console(width=width, height=height)
    with console.capture() as capture:
        console.print(board, height=height)
    return capture.get()


def test_the_newest_change_is_on_top_and_a_task_has_one_row() -> None:
    board = Board("birds.posteriors", clock=lambda: 0.0)
    add(board, posterior("t1", 0.5), posterior("t2", 0.0))
    add(board, posterior("t1", -1.0, 2))
    text = shown(board, 20)
    rows = [line for line in text.splitlines() if "t1" in line or "t2" in line]
    assert ["t1" in row for row in rows] == [True, False]
    assert "-1.00" in rows[0]
    assert "3 changes of 2 tasks" in text


def test_where_classes_have_names_the_table_has_the_most_probable_and_its_probability() -> None:
    board = Board("pets.posteriors", PETS, clock=lambda: 0.0)
    records = named("t1", [0.25, 0.5, 0.25], 3), named("t2", [0.4, 0.4, 0.2], 2)
    board.add([parsed(PETS, record) for record in records])
    lines = shown(board, 20).splitlines()
    assert "confidence" in lines[2]
    assert "log_odds" not in lines[2]
    (row,) = (line for line in lines if "t1" in line)
    assert "0.500" in row
    assert "dog" in row
    (tie,) = (line for line in lines if "t2" in line)
    assert "0.400" in tie
    assert not any(name in tie for name in ("cat", "dog", "bird"))


@pytest.mark.parametrize("width", [60, 80, 120])
def test_the_status_of_tasks_is_shown_and_fits_the_screen(width: int) -> None:
    board = Board("birds.posteriors", clock=lambda: 0.0)
    closed = posterior("closed", 3.0, 12_345) | {"status": "closed", "reason": "confident"}
    add(board, posterior("open", 0.5), closed)
    lines = shown(board, 20, width).splitlines()
    assert max(map(len, lines)) <= width
    (row,) = (line for line in lines if "closed" in line)
    assert all(cell in row for cell in ("0.953", "12,345", "+1", "confident"))
    (row,) = (line for line in lines if "0.622" in line)
    assert row.count("open") == 2


def test_no_id_reaches_the_terminal_as_an_escape_sequence() -> None:
    board = Board("birds.posteriors", clock=lambda: 0.0)
    add(board, posterior("\x1b]0;mine\x07\u202e", 0.5))
    text = shown(board, 20, 120)
    assert "\x1b]0" not in text
    assert "\u202e" not in text
    assert "\\x1b]0;mine" in text


def test_no_more_rows_than_the_screen_has() -> None:
    board = Board("birds.posteriors", clock=lambda: 0.0)
    add(board, *(posterior(f"t{number}", 0.5) for number in range(100)))
    assert len(shown(board, 20).splitlines()) <= 20


def test_the_rate_is_that_of_the_last_seconds() -> None:
    now = 0.0
    board = Board("birds.posteriors", clock=lambda: now)
    now = 1.0
    add(board, *[posterior("t1", 0.5)] * 10)
    assert board.rate == 10
    now = 100.0
    add(board, *[posterior("t1", 0.5)] * 5)
    assert board.rate == 1
