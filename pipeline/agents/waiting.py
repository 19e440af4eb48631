"""Waits, not ready, while a command recreates topics or while this client is not authorized."""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from prometheus_client import CollectorRegistry

from pipeline.agents.telemetry.readiness_log import ReadinessLog
from pipeline.agents.telemetry.web import Web
from pipeline.kafka.access.granted import check_role
from pipeline.kafka.errors import ClusterError, Denied, NotAllowed
from pipeline.project.errors import Unfinished
from pipeline.project.given import Given
from pipeline.project.log import read_project
from pipeline.project.opening import Opened, open_project
from pipeline.settings import Settings

log = logging.getLogger("sbic")

LOOK_SECONDS = 0.5


async def opened_when_ready(given: Given) -> Opened:
    """Check the rights of an instance, and open the project once no command recreates its topics.

    Raises what `open_project` does, `NotAllowed`, and `Unfinished` if the project is being deleted.
    """
    await check_role(given.place, "pipeline")
    while True:
        opened = await open_project(given)
        if opened.revision.state == "ready":
            return opened
        why_not = Unfinished(opened.settings.prefix, opened.revision.state)
        if opened.revision.state == "deleting":
            raise why_not
        await _wait(opened.settings, str(why_not))


async def opened_when_allowed(given: Given) -> Opened:
    """Open the project for an instance that was running before; wait until it is authorized."""
    while True:
        try:
            return await opened_when_ready(given)
        except (Denied, NotAllowed) as refused:
            log.warning("%s; waiting until that is mended", refused)
            async with _reporting(given.settings, str(refused)):
                await _until_allowed(given.settings)


async def _until_allowed(settings: Settings) -> None:
    while True:
        await asyncio.sleep(LOOK_SECONDS)
        with suppress(ClusterError):
            await check_role(settings, "pipeline")
            return


@asynccontextmanager
async def _reporting(settings: Settings, why_not: str) -> AsyncIterator[None]:
    """Report on the web port and in the log why this instance is not ready."""
    web = Web(settings.web_host, settings.web_port, CollectorRegistry(), lambda: why_not)
    async with web, ReadinessLog(lambda: why_not):
        yield


async def _wait(settings: Settings, why_not: str) -> None:
    """Wait until the command has finished, and report why on the web port and in the log."""
    log.info("not ready: %s", why_not)
    async with _reporting(settings, why_not):
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            with suppress(ClusterError):  # Kafka may be unavailable for a while
                revision = await read_project(settings)
                if revision is None or revision.state not in ("recounting", "resetting"):
                    return
