"""Runs an app as a process that stops in order on SIGTERM and SIGINT, within a time limit.

On a signal, the worker of Faust 0.15.3 (mode) stops one service after the other and sleeps for two
seconds; it has no time limit, and it prints a banner and a spinner.
"""

import signal
from abc import abstractmethod
from typing import NoReturn

import faust
from mode.utils.futures import maybe_cancel

from pipeline.batched.app import BatchedApp

STOP_SECONDS = 9  # supervisors commonly kill after 10


class BatchedWorker(faust.Worker):
    """Faust's worker, which leaves the group on a signal and then calls `end`.

    A subclass decides how the process ends, and what it logs.
    """

    app: BatchedApp

    def __init__(self, app: BatchedApp) -> None:
        super().__init__(
            app, quiet=True, override_logging=False, redirect_stdouts=False, loglevel="WARN"
        )
        self.spinner = None

    @abstractmethod
    def signalled(self) -> None:
        """Called on SIGTERM and SIGINT, before the app stops."""

    @abstractmethod
    def stopping(self) -> None:
        """Called once, when the app begins to stop."""

    @abstractmethod
    def stopped(self, error: Exception | None) -> NoReturn:
        """End the process: the app has left the group, or failed to."""

    @abstractmethod
    def stopped_late(self) -> NoReturn:
        """End the process: the app has not left the group within `STOP_SECONDS`."""

    @property
    def is_stopping(self) -> bool:
        """Whether the app has begun to stop."""
        return bool(self._signal_stop_time)

    def stop_soon(self) -> None:
        """Begin to stop, as on SIGTERM."""
        self._schedule_shutdown(signal.SIGTERM)

    def _on_sigterm(self) -> None:
        self.signalled()
        super()._on_sigterm()

    def _on_sigint(self) -> None:
        self.signalled()
        super()._on_sigint()

    def _schedule_shutdown(self, received: signal.Signals) -> None:
        if not self.is_stopping:
            self.stopping()
            self.loop.call_later(STOP_SECONDS, self.stopped_late)
        super()._schedule_shutdown(received)

    async def _stop_on_signal(self, _received: signal.Signals) -> None:
        maybe_cancel(self._starting_fut)  # start nothing more
        try:
            await self.app.leave()
        except Exception as error:
            self.stopped(error)
        self.stopped(None)
