"""Runs one instance as a process: logging, signals, and the exit status."""

import gc
import logging
import os
import signal
from typing import NoReturn

import faust
from aiokafka.errors import KafkaError
from mode.utils.futures import maybe_cancel

from pipeline.agents.app import PipelineApp
from pipeline.agents.errors import CannotStart
from pipeline.agents.telemetry.logs import log_start
from pipeline.batched.stop import RECOVERS, SOFTWARE_ERROR, abort, begin_anew, end
from pipeline.kafka.access.rights import Operation
from pipeline.kafka.connection import in_our_words
from pipeline.project.opening import Opened

log = logging.getLogger("sbic")

# The answers that an instance holds are many and have no cycles: Python's default, to look for
# some after every 700 new objects, costs a sixth of the time of a label, and pauses all.
GARBAGE_THRESHOLDS = 100_000, 20, 50

STOP_SECONDS = 9  # supervisors commonly kill after 10


class Instance(faust.Worker):
    """Faust's worker without its banner and spinner; SIGTERM and SIGINT stop it in good order.

    When the project changes it stops in the same order, and starts the same command anew.
    """

    app: PipelineApp

    def __init__(self, app: PipelineApp) -> None:
        super().__init__(
            app, quiet=True, override_logging=False, redirect_stdouts=False, loglevel="WARN"
        )
        self.spinner = None
        self.begins_anew = False

    async def start(self) -> None:
        """Run until stopped; an error before all services run is like any other."""
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
        if not self._signal_stop_time:
            self.begins_anew = self.app.project_watch.why_end is None
            self._schedule_shutdown(signal.SIGTERM)

    def _on_sigterm(self) -> None:
        self.begins_anew = False
        super()._on_sigterm()

    def _on_sigint(self) -> None:
        self.begins_anew = False
        super()._on_sigint()

    def _schedule_shutdown(self, received: signal.Signals) -> None:
        if not self._signal_stop_time:
            log.info("the project has changed: starting anew" if self.begins_anew else "stopping")
            self.loop.call_later(STOP_SECONDS, self._give_up)
        super()._schedule_shutdown(received)

    async def _stop_on_signal(self, _received: signal.Signals) -> None:
        maybe_cancel(self._starting_fut)  # start nothing more
        try:
            await self.app.leave()
        except Exception as error:
            if not self.app.project_watch.changed.is_set():
                abort(error)  # otherwise topics may be gone; nothing is lost, as by a kill
        self._stop_for_the_project()
        os._exit(0)  # Faust would stop one service after the other, and sleep for two seconds

    def _stop_for_the_project(self) -> None:
        """End or begin anew, if it is the project that has changed."""
        if why_end := self.app.project_watch.why_end:
            end(why_end, 1)
        if self.begins_anew:
            begin_anew()

    def _give_up(self) -> None:
        self._stop_for_the_project()
        late = f"not all was published and committed after {STOP_SECONDS} s: is Kafka there?"
        end(f"{late} {RECOVERS}", SOFTWARE_ERROR)


def run(opened: Opened) -> NoReturn:
    """Run until SIGTERM or SIGINT, then exit 0; an unexpected error exits 70."""
    log_start(opened.settings)
    gc.set_threshold(*GARBAGE_THRESHOLDS)
    try:
        app = PipelineApp(opened.settings, opened.revision)
    except CannotStart as error:
        end(str(error), 1)
    Instance(app).execute_from_commandline()
