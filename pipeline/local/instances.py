"""Instances of the pipeline on this machine, each `sbic run` in a separate process."""

import asyncio
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from urllib.error import URLError
from urllib.request import urlopen

from pipeline.local.ports import HOST
from pipeline.local.supervisor import Command, Report, keep_running
from pipeline.project.given import Given
from pipeline.settings import SPECS, variable


def instances_of(given: Given, web_ports: Sequence[int]) -> list[Command]:
    """The commands of instances with these web ports.

    >>> one, two = instances_of(Given({"prefix": "birds"}), [6066, 6067])
    >>> two.name, two.environment["SBIC_PREFIX"], two.environment["SBIC_WEB_PORT"]
    ('instance-2', 'birds', '6067')
    """
    # -P: do not import a folder named pipeline in the working directory
    arguments = [sys.executable, "-P", "-m", "pipeline", "run"]
    return [
        Command(f"instance-{number}", arguments, environment(given.with_values(web_port=port)))
        for number, port in enumerate(web_ports, 1)
    ]


def environment(given: Given) -> dict[str, str]:
    """All settings as environment variables; those not given are empty."""
    values = {variable(name): str(given.values.get(name, "")) for name in SPECS}
    return values | given.security.environment()


@asynccontextmanager
async def running(commands: Sequence[Command], log: Report, report: Report) -> AsyncIterator[None]:
    """Keep the commands running while the block runs; on return all have exited."""
    tasks = [asyncio.create_task(keep_running(command, log, report)) for command in commands]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def is_ready(port: int) -> bool:
    """Whether the instance with this web port is ready."""
    return _page(port, "readyz") is not None


def is_alive(port: int) -> bool:
    """Whether the process with this web port answers."""
    return _page(port, "healthz") is not None


def are_settled(ports: Sequence[int]) -> bool:
    """Whether the instances with these web ports are all settled."""
    return all("\nsbic_settled 1.0\n" in (_page(port, "metrics") or "") for port in ports)


def _page(port: int, name: str) -> str | None:
    """A page of a web port; None if it does not answer, or with an error status."""
    try:
        with urlopen(f"http://{HOST}:{port}/{name}", timeout=2) as response:
            return str(response.read().decode())
    except (URLError, ConnectionError, TimeoutError):
        return None
