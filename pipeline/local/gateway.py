"""A gateway for the page of another command: `sbic gateway` in a separate process."""

import asyncio
import sys
import webbrowser
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from pipeline.local.instances import environment, is_alive
from pipeline.local.ports import HOST, free_port, is_free
from pipeline.local.supervisor import Command, Report
from pipeline.project.given import Given

USUAL_PORT = 8080
ASK_SECONDS = 0.2


def gateway_of(given: Given, prefixes: Sequence[str], port: int) -> Command:
    """The command of a gateway on loopback, for projects with these settings.

    >>> command = gateway_of(Given({"budget": 1000}), ["birds", "pets"], 8080)
    >>> command.environment["SBIC_GATEWAY_PROJECTS"], command.environment["SBIC_GATEWAY_PORT"]
    ('birds,pets', '8080')
    """
    # -P: do not import a folder named pipeline in the working directory
    arguments = [sys.executable, "-P", "-m", "pipeline", "gateway"]
    own = {
        "SBIC_GATEWAY_HOST": HOST,
        "SBIC_GATEWAY_PORT": str(port),
        "SBIC_GATEWAY_PROJECTS": ",".join(prefixes),
    }
    return Command("gateway", arguments, environment(given) | own)


def page_at(port: int) -> str:
    """The address of the page."""
    return f"http://{HOST}:{port}/"


def usual_port() -> int:
    """The usual port, or any free one if that is in use."""
    return USUAL_PORT if is_free(USUAL_PORT) else free_port()


@asynccontextmanager
async def opening(port: int, report: Report) -> AsyncIterator[None]:
    """While the block runs, open the page in a browser as soon as the gateway answers."""
    task = asyncio.create_task(_open(port, report))
    try:
        yield
    finally:
        task.cancel()


async def _open(port: int, report: Report) -> None:
    answers = False
    while not answers:
        await asyncio.sleep(ASK_SECONDS)
        answers = await asyncio.to_thread(is_alive, port)
    if not await asyncio.to_thread(webbrowser.open, page_at(port)):
        report("gateway", f"no browser was found here; open {page_at(port)} yourself")
