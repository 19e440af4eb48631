"""Runs a command, and ends it when whoever started this has gone: never an orphan.

Run as a script, with a pipe as standard input that the starter holds open:

    guard.py FOLDER COMMAND...

When the pipe closes, because the starter closed it or died of whatever cause, the command gets
SIGTERM, then SIGKILL if it takes too long; FOLDER, unless empty, is removed. When the command ends
by itself, so does this, with its status. Should this script be killed, the kernel sends the
command SIGTERM (Linux). It imports nothing of the project: it must start in no time.
"""

import ctypes
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from threading import Event, Thread

GRACE_SECONDS = 15
PR_SET_PDEATHSIG = 1


def run(folder: str, command: list[str]) -> int:
    """Run the command until it ends or the pipe does; its exit status."""
    # inherited file descriptors stay open: the lock of the data folder is one of them
    process = subprocess.Popen(
        command, stdin=subprocess.DEVNULL, close_fds=False, preexec_fn=_dies_with_parent()
    )
    signal.signal(signal.SIGTERM, lambda *_: process.terminate())
    ending = Event()
    Thread(target=_end_with, args=(process, ending), daemon=True).start()
    while os.read(sys.stdin.fileno(), 1):
        pass
    ending.set()
    process.terminate()
    try:
        process.wait(GRACE_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
    status = process.wait()
    if folder:
        shutil.rmtree(folder, ignore_errors=True)
    return status


def _end_with(process: "subprocess.Popen[bytes]", ending: Event) -> None:
    status = process.wait()
    if not ending.is_set():
        os._exit(status % 256)


def _dies_with_parent() -> Callable[[], object] | None:
    if sys.platform != "linux":
        return None
    prctl = ctypes.CDLL(None).prctl
    return lambda: prctl(PR_SET_PDEATHSIG, signal.SIGTERM)


if __name__ == "__main__":
    sys.exit(run(sys.argv[1], sys.argv[2:]) % 256)
