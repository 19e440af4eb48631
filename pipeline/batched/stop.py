"""How a process ends or begins anew: at once, and with nothing more acked."""

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
GOES_ON = "SBIC_GOES_ON"
"""The variable that tells a command that it was running before: it waits until it may again."""
RECOVERS = "Nothing is lost, the next start recovers"


class CannotGoOn(Exception):
    """Nothing is wrong with the instance itself: it ends with status 1 and without a traceback."""


def abort(error: BaseException) -> NoReturn:
    """End the process: nothing more may be published or committed; the next start recovers.

    If it is only that somebody has taken away a right, the same process begins anew.
    """
    if isinstance(error, CannotGoOn):
        end(str(error), 1)
    if isinstance(error, NOT_ALLOWED):
        print(f"sbic: Kafka does not allow it any more: {error}", file=sys.stderr)
        os.environ[GOES_ON] = "true"
        begin_anew()
    if isinstance(error, KafkaError):
        said = f"Kafka did not do what it was asked for: {error!r}. {RECOVERS}"
    else:
        log.error("an unexpected error", exc_info=error)
        said = f"stopped by an unexpected error: {error!r}"
    end(said, SOFTWARE_ERROR)


def begin_anew() -> NoReturn:
    """Start the same command again in this process: same arguments, environment and pid."""
    sys.stdout.flush()
    sys.stderr.flush()
    os.execv(sys.executable, sys.orig_argv)


def end(message: str, status: int) -> NoReturn:
    """Say why, and end the process."""
    log.critical(message)
    sys.stderr.flush()
    os._exit(status)
