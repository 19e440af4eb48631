"""Runs one instance as a process: logging, signals, and the exit status."""

import logging
from typing import NoReturn

import faust

from pipeline.agents.app import PipelineApp
from pipeline.settings import Settings

log = logging.getLogger("sbic")


class Instance(faust.Worker):
    """Faust's worker without its banner and spinner; SIGTERM and SIGINT stop it in good order."""

    def __init__(self, app: PipelineApp) -> None:
        super().__init__(
            app, quiet=True, override_logging=False, redirect_stdouts=False, loglevel="WARN"
        )
        self.spinner = None

    def on_worker_shutdown(self) -> None:
        """Say so."""
        log.info("stopping")


def run(settings: Settings) -> NoReturn:
    """Run until SIGTERM or SIGINT, then exit 0; an unexpected error exits 70."""
    logging.basicConfig(
        force=True,
        level=logging.WARNING,
        format="%(asctime)s %(levelname)s %(name)s: %(message)s",
    )
    log.setLevel(logging.INFO)
    Instance(PipelineApp(settings)).execute_from_commandline()
