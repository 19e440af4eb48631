"""Several instances of the pipeline on this machine, each `sbic run` in a process of its own."""

import asyncio
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from urllib.error import URLError
from urllib.request import urlopen

from pipeline.local.ports import HOST
from pipeline.local.supervisor import Command, Say, keep_running
from pipeline.project.given import Given
from pipeline.settings import SPECS, variable


def instances_of(given: Given, web_ports: Sequence[int]) -> list[Command]:
    """The commands of instances with these web ports.

    >>> one, two = instances_of(Given({"prefix": "birds"}), [6066, 6067])
    >>> two.name, two.environment["SBIC_PREFIX"], two.environment["SBIC_WEB_PORT"]
    ('worker-2', 'birds', '6067')
    """
    # -P: a folder named pipeline where this was started is not ours
    arguments = [sys.executable, "-P", "-m", "pipeline", "run"]
    return [
        Command(f"worker-{number}", arguments, environment(given.with_values(web_port=port)))
        for number, port in enumerate(web_ports, 1)
    ]


def environment(given: Given) -> dict[str, str]:
    """All settings as environment variables; what is not given is empty."""
    values = {variable(name): str(given.values.get(name, "")) for name in SPECS}
    return values | given.security.environment()


@asynccontextmanager
async def running(commands: Sequence[Command], log: Say, say: Say) -> AsyncIterator[None]:
    """Keep the commands running while the block runs; on return all have ended in good order."""
    tasks = [asyncio.create_task(keep_running(command, log, say)) for command in commands]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def is_ready(port: int) -> bool:
    """Whether the instance with this web port says so."""
    return _page(port, "readyz") is not None


def is_alive(port: int) -> bool:
    """Whether the process with this web port answers."""
    return _page(port, "healthz") is not None


def are_settled(ports: Sequence[int]) -> bool:
    """Whether the instances with these web ports say that no task is to be weighed anew."""
    return all("\nsbic_settled 1.0\n" in (_page(port, "metrics") or "") for port in ports)


def _page(port: int, name: str) -> str | None:
    """A page of the web port of an instance; None where it is not there, or not as it should be."""
    try:
        with urlopen(f"http://{HOST}:{port}/{name}", timeout=2) as response:
            return str(response.read().decode())
    except (URLError, ConnectionError, TimeoutError):
        return None
