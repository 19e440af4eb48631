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
from pipeline.batched.stop import RECOVERS, SOFTWARE_ERROR, end, stop_at_once
from pipeline.settings import Settings

log = logging.getLogger("sbic")

# The answers that an instance holds are many and have no cycles: Python's default, to look for
# some after every 700 new objects, costs a sixth of the time of a label, and pauses all.
GARBAGE_THRESHOLDS = 100_000, 20, 50

STOP_SECONDS = 9  # supervisors commonly kill after 10


class Instance(faust.Worker):
    """Faust's worker without its banner and spinner; SIGTERM and SIGINT stop it in good order."""

    app: PipelineApp

    def __init__(self, app: PipelineApp) -> None:
        super().__init__(
            app, quiet=True, override_logging=False, redirect_stdouts=False, loglevel="WARN"
        )
        self.spinner = None
        self.servers = ", ".join(app.settings.bootstrap_servers)

    async def start(self) -> None:
        """Run until stopped; an error before all services run is like any other."""
        try:
            await super().start()
        except CannotStart as error:
            end(str(error), 1)
        except KafkaError as error:
            end(f"Kafka at {self.servers} does not answer: {error}", 1)
        except Exception as error:
            stop_at_once(error)

    def _schedule_shutdown(self, received: signal.Signals) -> None:
        if not self._signal_stop_time:
            log.info("stopping")
            self.loop.call_later(STOP_SECONDS, self._give_up)
        super()._schedule_shutdown(received)

    async def _stop_on_signal(self, _received: signal.Signals) -> None:
        maybe_cancel(self._starting_fut)  # start nothing more
        try:
            await self.app.leave()
        except Exception as error:
            stop_at_once(error)
        os._exit(0)  # Faust would stop one service after the other, and sleep for two seconds

    def _give_up(self) -> None:
        late = f"not all was published and committed after {STOP_SECONDS} s: is Kafka there?"
        end(f"{late} {RECOVERS}", SOFTWARE_ERROR)


def run(settings: Settings) -> NoReturn:
    """Run until SIGTERM or SIGINT, then exit 0; an unexpected error exits 70."""
    logging.basicConfig(
        force=True,
        level=logging.WARNING,
        format="%(asctime)s %(levelname)s %(name)s: %(message)s",
    )
    log.setLevel(logging.INFO)
    gc.set_threshold(*GARBAGE_THRESHOLDS)
    Instance(PipelineApp(settings)).execute_from_commandline()
