"""Runs a command, and stops it when the parent process is gone, so that it is never orphaned.

Run as a script, with a pipe as standard input that the parent holds open:

    guard.py FOLDER COMMAND...

When the pipe closes, because the parent closed it or died, the command gets SIGTERM, then SIGKILL
if it takes too long; FOLDER, unless empty, is removed. When the command exits, so does this script,
with the same status. If this script is killed, the kernel sends the command SIGTERM (Linux). It
imports nothing of the project, so that it starts fast.
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
    """Run the command until it exits or the pipe closes; its exit status."""
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
