"""A gateway of a command's own, for its page: `sbic gateway` in a process of its own."""

import asyncio
import sys
import webbrowser
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from pipeline.local.instances import environment, is_alive
from pipeline.local.ports import HOST, free_port, is_free
from pipeline.local.supervisor import Command, Say
from pipeline.project.given import Given

USUAL_PORT = 8080
ASK_SECONDS = 0.2


def gateway_of(given: Given, prefixes: Sequence[str], port: int) -> Command:
    """The command of a gateway on loopback, for projects whose instances have these settings.

    >>> command = gateway_of(Given({"budget": 1000}), ["birds", "pets"], 8080)
    >>> command.environment["SBIC_GATEWAY_PROJECTS"], command.environment["SBIC_GATEWAY_PORT"]
    ('birds,pets', '8080')
    """
    # -P: a folder named pipeline where this was started is not ours
    arguments = [sys.executable, "-P", "-m", "pipeline", "gateway"]
    own = {
        "SBIC_GATEWAY_HOST": HOST,
        "SBIC_GATEWAY_PORT": str(port),
        "SBIC_GATEWAY_PROJECTS": ",".join(prefixes),
    }
    return Command("gateway", arguments, environment(given) | own)


def page_at(port: int) -> str:
    """The address of its page."""
    return f"http://{HOST}:{port}/"


def usual_port() -> int:
    """The usual port, or any free one where somebody else uses that."""
    return USUAL_PORT if is_free(USUAL_PORT) else free_port()


@asynccontextmanager
async def opening(port: int, say: Say) -> AsyncIterator[None]:
    """Open the page in the user's browser as soon as the gateway answers, while the block runs."""
    task = asyncio.create_task(_open(port, say))
    try:
        yield
    finally:
        task.cancel()


async def _open(port: int, say: Say) -> None:
    answers = False
    while not answers:
        await asyncio.sleep(ASK_SECONDS)
        answers = await asyncio.to_thread(is_alive, port)
    if not await asyncio.to_thread(webbrowser.open, page_at(port)):
        say("gateway", f"no browser was found here; open {page_at(port)} yourself")
