"""What the page shows in the tests: a gateway for two projects, each with an instance."""

import asyncio
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import IO, Any
from urllib.error import URLError
from urllib.request import urlopen
from uuid import uuid4

from orjson import dumps, loads

from sbic.kafka.reader import reading
from sbic.local.broker import EmbeddedBroker
from sbic.local.java import free_port
from sbic.project.settings import Settings
from sbic.project.topics import Topics
from sbic.wire.labels import encode_label
from tests.instances import LAUNCH, instance
from tests.page.crowd import Label, labels
from tests.projects import commit_as_sink, records_of, write

CLASSES = ("cat", "dog", "bird")
BUDGET = 2000
RULES = {"SBIC_BUDGET": str(BUDGET), "SBIC_STOP_LABELS": "9", "SBIC_BLOCK_BELOW": "0.68"}
BAD_LABELS = (b"not JSON", b"{}", b'{"task": "t1", "worker": "w1", "label": "fish"}')
PARTITIONS = 3


class ShownProject:
    """A project, with the labels that it was given."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.prefix = settings.prefix
        self.labels: list[Label] = []
        self._topics = Topics(settings)

    def send(self, given: Sequence[Label]) -> None:
        """Labels onto their topic."""
        self.labels += given
        records = [
            (worker.encode(), encode_label(task, worker, label)) for task, worker, label in given
        ]
        asyncio.run(write(self.settings, self._topics.labels.name, records))

    def send_bad(self) -> None:
        """Records that become dead letters."""
        records = [(b"w1", value) for value in BAD_LABELS]
        asyncio.run(write(self.settings, self._topics.labels.name, records))

    def send_worker(self, worker: dict[str, Any]) -> None:
        """A worker's record onto its topic, as an instance publishes it."""
        records = [(worker["worker"].encode(), dumps(worker))]
        asyncio.run(write(self.settings, self._topics.workers.name, records))

    def commit_as_sink(self, name: str, lag: int, at: int) -> None:
        """Commit offsets of posteriors as a sink does that has `lag` records to go."""
        asyncio.run(self._commit(name, lag, at))

    async def _commit(self, name: str, lag: int, at: int) -> None:
        async with reading(self.settings, self._topics.posteriors.name, from_start=True) as reader:
            tp, end = max(reader.ends.items(), key=lambda each: each[1])
            offsets = dict(reader.ends) | {tp: end - lag}
        await commit_as_sink(self.settings, name, offsets, str(at))

    def posteriors(self) -> list[dict[str, Any]]:
        """The last one of each task."""
        return self._last(self._topics.posteriors.name)

    def workers(self) -> list[dict[str, Any]]:
        """The last record of each worker."""
        return self._last(self._topics.workers.name)

    def _last(self, topic: str) -> list[dict[str, Any]]:
        records = asyncio.run(records_of(self.settings, topic))
        return list({record.key: loads(record.value) for record in records}.values())


class Show:
    """The two projects, and the gateway, which can be stopped and started at the same port."""

    def __init__(self, pets: ShownProject, signs: ShownProject, log: IO[bytes]) -> None:
        self.pets = pets
        self.signs = signs
        self._port = free_port()
        self._gateway: subprocess.Popen[bytes] | None = None
        self._log = log
        self.token = uuid4().hex
        self.url = f"http://127.0.0.1:{self._port}/"

    def start_gateway(self) -> None:
        """Start it, and wait until it answers."""
        settings = self.pets.settings
        inherited = {name: value for name, value in os.environ.items() if name[:5] != "SBIC_"}
        own = {
            "SBIC_BROKER": settings.broker,
            "SBIC_PREFIX": settings.prefix,
            "SBIC_GATEWAY_PORT": str(self._port),
            "SBIC_GATEWAY_PROJECTS": f"{self.pets.prefix},{self.signs.prefix}",
            "SBIC_GATEWAY_TOKEN": self.token,
        }
        self._gateway = subprocess.Popen(
            [sys.executable, "-c", LAUNCH, "-m", "sbic", "gateway"],
            env=inherited | own,
            stdin=subprocess.DEVNULL,
            stdout=self._log,
            stderr=self._log,
        )
        last = time.monotonic() + 60
        while not self._is_ready():
            assert self._gateway.poll() is None, self.log()
            assert time.monotonic() < last, self.log()
            time.sleep(0.05)

    def stop_gateway(self) -> None:
        """SIGTERM, and wait until it is gone."""
        if self._gateway is not None:
            self._gateway.send_signal(signal.SIGTERM)
            assert self._gateway.wait(30) == 0, self.log()
            self._gateway = None

    def log(self) -> str:
        """What it has written."""
        self._log.seek(0)
        return self._log.read().decode(errors="replace")

    def _is_ready(self) -> bool:
        try:
            with urlopen(f"{self.url}readyz", timeout=5):
                return True
        except (URLError, ConnectionError, TimeoutError):
            return False


@contextmanager
def running_show(broker: EmbeddedBroker) -> Iterator[Show]:
    """The whole of it, with labels that are counted."""
    made = uuid4().hex[:8]
    pets = {"SBIC_CLASSES": ",".join(CLASSES)}
    with ExitStack() as stack:
        projects = []
        for kind, given in (("pets", pets), ("signs", {"SBIC_ALGORITHM": "fast-sbic"})):
            prefix = f"page-{kind}-{made}"
            env = {**given, **RULES, "SBIC_PARTITIONS": str(PARTITIONS)}
            started = stack.enter_context(instance(broker.url, prefix, **env))
            settings = Settings(broker=broker.url, prefix=prefix, partitions=PARTITIONS)
            projects.append((started, ShownProject(settings)))
        for started, _ in projects:
            started.wait_ready()
        (_, pets_shown), (_, signs_shown) = projects
        log = stack.enter_context(tempfile.TemporaryFile())
        show = Show(pets_shown, signs_shown, log)
        show.start_gateway()
        stack.callback(show.stop_gateway)
        pets_shown.send(labels(CLASSES))
        pets_shown.send_bad()
        signs_shown.send(labels((-1, 1)))
        yield show
