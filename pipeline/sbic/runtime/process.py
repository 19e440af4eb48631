"""Runs one instance as a process: waits until it may start, logging, signals, exit status."""

import asyncio
import gc
import logging
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import NamedTuple, NoReturn

import faust
from aiokafka.errors import KafkaError
from prometheus_client import CollectorRegistry

from sbic.instance.warm_up import warm_up_instance
from sbic.kafka.connect import in_our_words
from sbic.kafka.errors import ClusterError, Denied, MissingRights
from sbic.kafka.protocol import check_role
from sbic.kafka.rights import Operation
from sbic.project.opening import Opened, Unfinished, open_project, read_project, read_seal
from sbic.project.revision import Given
from sbic.project.settings import Settings
from sbic.runtime.app import PipelineApp
from sbic.runtime.faust.app import STOP_SECONDS, BatchedWorker
from sbic.runtime.faust.stop import RECOVERS, SOFTWARE_ERROR, CannotStart, abort, end, restart
from sbic.runtime.logs import ReadinessLog, log_start
from sbic.runtime.readiness import Web
from sbic.wire.seal import Seal

log = logging.getLogger("sbic")

LOOK_SECONDS = 0.5


class ReadyProject(NamedTuple):
    """A project that is ready, and the seal of its instances."""

    opened: Opened
    seal: Seal


async def opened_when_ready(given: Given) -> ReadyProject:
    """Check the rights of an instance, and open the project once no command recreates its topics.

    Raises what `open_project` does, `MissingRights`, and `Unfinished` if the project is deleted.
    """
    await check_role(given.place, "pipeline")
    while True:
        opened = await open_project(given)
        if opened.revision.state == "ready":
            if opened.settings.flat:  # a topic that other projects do not have
                await check_role(opened.settings, "pipeline")
            for difference in opened.differences:
                log.warning("%s: the project's value is used", difference)
            return ReadyProject(opened, await read_seal(opened.settings, opened.revision))
        why_not = Unfinished(opened.settings.prefix, opened.revision)
        if opened.revision.state == "deleting":
            raise why_not
        await _wait(opened.settings, str(why_not))


async def opened_when_allowed(given: Given) -> ReadyProject:
    """Open the project for an instance that was running before; wait until it is authorized."""
    while True:
        try:
            return await opened_when_ready(given)
        except (Denied, MissingRights) as refused:
            log.warning("%s; waiting until that is fixed", refused)
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
                if revision is None or revision.state in ("ready", "deleting"):
                    return


class InstanceProcess(BatchedWorker):
    """Runs the app until SIGTERM, SIGINT, or a change of the project.

    After a change of the project the process runs the same command again.
    """

    app: PipelineApp

    def __init__(self, app: PipelineApp) -> None:
        super().__init__(app)
        self.restarts = False

    async def start(self) -> None:
        """Run until stopped; an error while services start ends the process like any other."""
        try:
            await super().start()
        except CannotStart as error:
            end(str(error), 1)
        except KafkaError as error:
            end(str(in_our_words(error, self.app.settings, Operation.READ)), 1)
        except Exception as error:
            abort(error)

    @faust.Service.task
    async def _follow_project(self) -> None:
        await self.app.project_watch.changed.wait()
        if not self.is_stopping:
            self.restarts = self.app.project_watch.why_end is None
            self.stop_soon()

    def signalled(self) -> None:
        """Do not restart: somebody wants this process to end."""
        self.restarts = False

    def stopping(self) -> None:
        """Log that the instance stops or restarts."""
        log.info("the project has changed: restarting" if self.restarts else "stopping")

    def stopped(self, error: Exception | None) -> NoReturn:
        """End or restart the process; Faust would stop service by service, and sleep."""
        if error is not None and not self.app.project_watch.changed.is_set():
            abort(error)  # after a change, topics may be gone; as with a kill, nothing is lost
        self._stop_for_the_project()
        os._exit(0)

    def stopped_late(self) -> NoReturn:
        """End or restart the process, though not all results are published and committed."""
        self._stop_for_the_project()
        late = f"not everything was published and committed after {STOP_SECONDS} s: is Kafka up?"
        end(f"{late} {RECOVERS}", SOFTWARE_ERROR)

    def _stop_for_the_project(self) -> None:
        """End or restart the process if a change of the project is what stopped it."""
        if why_end := self.app.project_watch.why_end:
            end(why_end, 1)
        if self.restarts:
            restart()


def run(startable: ReadyProject) -> NoReturn:
    """Run until SIGTERM or SIGINT, then exit with 0; an unexpected error exits with 70."""
    opened, seal = startable
    log_start(opened.settings)
    warm_up_instance()
    try:
        app = PipelineApp(opened.settings, opened.revision, seal)
    except CannotStart as error:
        end(str(error), 1)
    gc.freeze()  # modules and compiled code, which a full search takes 70 ms for, stay anyway
    InstanceProcess(app).execute_from_commandline()
