"""Waits, not ready, while the topics of the project are made again."""

import asyncio
import logging
from contextlib import suppress

from prometheus_client import CollectorRegistry

from pipeline.agents.readiness_log import ReadinessLog
from pipeline.agents.web import Web
from pipeline.kafka.errors import ClusterError
from pipeline.project.errors import Unfinished
from pipeline.project.given import Given
from pipeline.project.log import read_project
from pipeline.project.opening import Opened, open_project
from pipeline.settings import Settings

log = logging.getLogger("sbic")

LOOK_SECONDS = 0.5


async def opened_when_ready(given: Given) -> Opened:
    """Open the project for an instance, once no command makes its topics again.

    Raises what `open_project` does, and `Unfinished` if the project is being deleted.
    """
    while True:
        opened = await open_project(given)
        if opened.revision.state == "ready":
            return opened
        why_not = Unfinished(opened.settings.prefix, opened.revision.state)
        if opened.revision.state == "deleting":
            raise why_not
        await _wait(opened.settings, str(why_not))


async def _wait(settings: Settings, why_not: str) -> None:
    """Wait for the next revision, and say on the web port and in the log why."""
    log.info("not ready: %s", why_not)
    web = Web(settings.web_host, settings.web_port, CollectorRegistry(), lambda: why_not)
    async with web, ReadinessLog(lambda: why_not):
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            with suppress(ClusterError):  # Kafka may be away for a while
                revision = await read_project(settings)
                if revision is None or revision.state not in ("recounting", "resetting"):
                    return
