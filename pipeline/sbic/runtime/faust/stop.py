"""Ends or restarts the process at once, without committing anything more; counts Kafka's errors."""

import logging
import os
import sys
from typing import NoReturn

from aiokafka.errors import (
    ClusterAuthorizationFailedError,
    GroupAuthorizationFailedError,
    KafkaError,
    TopicAuthorizationFailedError,
)

log = logging.getLogger("sbic")

SOFTWARE_ERROR = 70  # EX_SOFTWARE of sysexits.h
NOT_ALLOWED = (
    ClusterAuthorizationFailedError,
    GroupAuthorizationFailedError,
    TopicAuthorizationFailedError,
)
RESTARTED = "SBIC_RESTARTED"
"""The variable that makes a restarted command wait until it is authorized again."""
RECOVERS = "Nothing is lost; the next start recovers"


class CannotStart(Exception):
    """Something else has to be fixed first: the process ends with status 1 and this one line."""


def abort(error: BaseException) -> NoReturn:
    """End the process without publishing or committing anything more; the next start recovers.

    If this client is no longer authorized, restart the command instead: it waits for the right.
    """
    if isinstance(error, CannotStart):
        end(str(error), 1)
    if isinstance(error, NOT_ALLOWED):
        print(f"sbic: no longer authorized: {error}", file=sys.stderr)
        os.environ[RESTARTED] = "true"
        restart()
    if isinstance(error, KafkaError):
        why = f"stopped by an error of Kafka: {type(error).__name__}: {error}. {RECOVERS}"
    else:
        log.error("unexpected error", exc_info=error)
        why = f"stopped by an unexpected error: {type(error).__name__}: {error}"
    end(why, SOFTWARE_ERROR)


def restart() -> NoReturn:
    """Run the same command again in this process: same arguments, environment and pid."""
    sys.stdout.flush()
    sys.stderr.flush()
    os.execv(sys.executable, sys.orig_argv)


def end(message: str, status: int) -> NoReturn:
    """Log the message, and end the process."""
    log.critical(message)
    sys.stderr.flush()
    os._exit(status)


# Counts the errors of Kafka's clients from which they recover by themselves.
#
# aiokafka 0.14 retries, and reports such an error only in its log.


CLIENTS = ("consumer", "producer", "connection")


class KafkaErrors(logging.Handler):
    """Counts the warnings and errors that aiokafka logs, by the part that logs them.

    >>> errors = KafkaErrors()
    >>> _ = errors.handle(logging.makeLogRecord({"name": "aiokafka.producer.sender"}))
    >>> errors.counts
    {'consumer': 0, 'producer': 1, 'connection': 0}
    """

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.counts = dict.fromkeys(CLIENTS, 0)

    def watch(self) -> None:
        """Count from now on."""
        logging.getLogger("aiokafka").addHandler(self)

    def emit(self, record: logging.LogRecord) -> None:
        """Count one."""
        part = record.name.removeprefix("aiokafka.").partition(".")[0]
        self.counts[part if part in self.counts else "connection"] += 1
