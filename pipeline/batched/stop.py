"""How an unexpected error ends the process: at once, and with nothing more acked."""

import os
import sys
import traceback
from typing import NoReturn

from aiokafka.errors import KafkaError

SOFTWARE_ERROR = 70  # EX_SOFTWARE of sysexits.h
RECOVERS = "Nothing is lost, the next start recovers"


def stop_at_once(error: BaseException) -> NoReturn:
    """End the process: nothing more may be published or committed; the next start recovers."""
    if isinstance(error, KafkaError):
        said = f"Kafka did not do what it was asked for: {error!r}. {RECOVERS}"
    else:
        traceback.print_exception(error)
        said = f"stopped by an unexpected error: {error!r}"
    print(f"sbic: {said}", file=sys.stderr, flush=True)
    os._exit(SOFTWARE_ERROR)
