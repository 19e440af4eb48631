"""Gateways as they really run: `sbic gateway` in a process of its own."""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.error import HTTPError, URLError
from urllib.request import urlopen

from pipeline.broker.ports import free_port
from tests.instances import LAUNCH


class Gateway:
    """A running `sbic gateway`."""

    def __init__(self, process: "subprocess.Popen[bytes]", url: str, log_path: str) -> None:
        self.process = process
        self.url = url
        self.log_path = log_path

    def log(self) -> str:
        """What it has written to standard output and error."""
        with open(self.log_path, errors="replace") as log:
            return log.read()

    def wait_ready(self, deadline: float = 60) -> None:
        """Wait until `/readyz` says so."""
        last = time.monotonic() + deadline
        while not self._is_ready():
            assert self.process.poll() is None, self.log()
            assert time.monotonic() < last, self.log()
            time.sleep(0.05)

    def _is_ready(self) -> bool:
        try:
            with urlopen(f"{self.url}/readyz", timeout=5):
                return True
        except (HTTPError, URLError, ConnectionError, TimeoutError):
            return False


@contextmanager
def gateway(broker: str, *prefixes: str, port: int = 0, **env: str) -> Iterator[Gateway]:
    """Start `sbic gateway`, not yet ready; it is killed at the end."""
    port = port or free_port()
    inherited = {name: value for name, value in os.environ.items() if name[:5] != "SBIC_"}
    own = {
        "SBIC_BROKER": broker,
        "SBIC_GATEWAY_PROJECTS": ",".join(prefixes),
        "SBIC_GATEWAY_PORT": str(port),
    }
    with (
        tempfile.TemporaryDirectory(prefix="sbic-gateway-") as folder,
        open(f"{folder}/log", "wb") as log,
    ):
        process = subprocess.Popen(
            [sys.executable, "-c", LAUNCH, "-m", "pipeline", "gateway"],
            cwd=folder,
            env=inherited | own | env,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
        )
        try:
            yield Gateway(process, f"http://127.0.0.1:{port}", log.name)
        finally:
            process.kill()
            process.wait()
