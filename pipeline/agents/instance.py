"""Runs one instance as a process: logging, signals, and the exit status."""

import gc
import logging
import os
from typing import NoReturn

import faust
from aiokafka.errors import KafkaError

from pipeline.agents.app import PipelineApp
from pipeline.agents.errors import CannotStart
from pipeline.agents.telemetry.logs import log_start
from pipeline.batched.stop import RECOVERS, SOFTWARE_ERROR, abort, end, restart
from pipeline.batched.worker import STOP_SECONDS, BatchedWorker
from pipeline.kafka.access.rights import Operation
from pipeline.kafka.connection import in_our_words
from pipeline.project.opening import Opened
from pipeline.warm_up import warm_up_instance

log = logging.getLogger("sbic")


class Instance(BatchedWorker):
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


def run(opened: Opened) -> NoReturn:
    """Run until SIGTERM or SIGINT, then exit with 0; an unexpected error exits with 70."""
    log_start(opened.settings)
    warm_up_instance()
    try:
        app = PipelineApp(opened.settings, opened.revision)
    except CannotStart as error:
        end(str(error), 1)
    gc.freeze()  # modules and compiled code, which a full search takes 70 ms for, stay anyway
    Instance(app).execute_from_commandline()
