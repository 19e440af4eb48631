"""Instances of the pipeline as users run them: `sbic run` in a separate process."""

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.error import URLError
from urllib.request import urlopen

from sbic.local.java import free_port

# The process becomes `sbic run`, with the same pid, and dies with the tests, even if they are
# killed (prctl 1 is PR_SET_PDEATHSIG; subprocess' own way, preexec_fn, is unsafe among threads).
LAUNCH = (
    "import ctypes, os, sys\n"
    "if sys.platform == 'linux': ctypes.CDLL(None).prctl(1, 9)\n"
    "os.execv(sys.executable, [sys.executable, *sys.argv[1:]])\n"
)
SESSION_SECONDS = "6"  # the least: partitions of an instance that was killed move the sooner
RUN = ("-m", "sbic", "run")
CHANGED_RUN = "from sbic.commands.main import main\n{change}\nmain()"


class RunningInstance:
    """A running `sbic run`."""

    def __init__(self, process: "subprocess.Popen[bytes]", url: str, log_path: str) -> None:
        self.process = process
        self.url = url
        self.log_path = log_path

    def get(self, path: str) -> tuple[int, str]:
        """Status and text of a page of the web port; status 0 while no process listens."""
        try:
            with urlopen(self.url + path, timeout=5) as response:
                return response.status, response.read().decode()
        except URLError as error:
            if hasattr(error, "code"):
                return error.code, error.read().decode()  # type: ignore[attr-defined]
            return 0, str(error.reason)
        except (ConnectionError, TimeoutError) as error:  # it is starting, or was killed
            return 0, str(error)

    def wait_ready(self, deadline: float = 60) -> None:
        """Wait until `/readyz` answers 200; fail if the instance exits or the deadline passes."""
        last = time.monotonic() + deadline
        while (answer := self.get("/readyz"))[0] != 200:
            status = self.process.poll()
            assert status is None, f"ended with status {status}:\n{self.log()}"
            assert time.monotonic() < last, f"not ready, {answer}:\n{self.log()}"
            time.sleep(0.05)

    def metrics(self) -> dict[str, float]:
        """Every sample, by its name and labels as Prometheus writes them.

        For example `metrics()['sbic_labels_total{outcome="counted"}']`.
        """
        status, text = self.get("/metrics")
        assert status == 200, text
        samples = (line.rsplit(" ", 1) for line in text.splitlines() if line[:1] != "#")
        return {name: float(value) for name, value in samples}

    def metrics_with(self, name: str, least: float, deadline: float = 60) -> dict[str, float]:
        """Every sample, once one has some value: it is counted after others can see the records."""
        last = time.monotonic() + deadline
        while (found := self.metrics()).get(name, 0) < least:
            assert time.monotonic() < last, f"{name} is {found.get(name)}, not {least}"
            time.sleep(0.05)
        return found

    def terminate(self, deadline: float = 30) -> int:
        """Send SIGTERM; the exit status. A test that fails because of it shows the log."""
        self.process.send_signal(signal.SIGTERM)
        status = self.process.wait(deadline)
        if status:
            print(f"ended with status {status}:\n{self.log()}")
        return status

    def kill(self) -> None:
        """Send SIGKILL, and wait until the process has ended."""
        self.process.kill()
        self.process.wait()

    def log(self) -> str:
        """The text that the instance has written to standard output and error."""
        with open(self.log_path, errors="replace") as log:
            return log.read()


@contextmanager
def instance(
    broker_address: str, prefix: str, change: str = "", **env: str
) -> Iterator[RunningInstance]:
    """Start `sbic run` without waiting until it is ready, and kill it at the end.

    `change` is Python that runs before the instance starts: a test makes it slow with this. `env`
    has further settings, by the names of their variables: `SBIC_PARTITIONS="1"`. The instance does
    not inherit the settings in the environment of the tests.
    """
    env.setdefault("SBIC_SESSION_SECONDS", SESSION_SECONDS)
    port = int(env.setdefault("SBIC_WEB_PORT", str(free_port())))
    inherited = {name: value for name, value in os.environ.items() if name[:5] != "SBIC_"}
    environment = inherited | {"SBIC_BROKER": broker_address, "SBIC_PREFIX": prefix} | env
    changed = "-c", CHANGED_RUN.format(change=change), "run"
    arguments = changed if change else RUN
    with (
        tempfile.TemporaryDirectory(prefix="sbic-instance-") as folder,
        open(f"{folder}/log", "wb") as log,
    ):
        process = subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", LAUNCH, *arguments],
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
        )
        try:
            yield RunningInstance(process, f"http://127.0.0.1:{port}", log.name)
        finally:
            process.kill()
            process.wait()
