"""How an unexpected error ends the process: at once, and with nothing more acked."""

import os
import sys
import traceback
from typing import NoReturn

SOFTWARE_ERROR = 70  # EX_SOFTWARE of sysexits.h


def stop_at_once(error: BaseException) -> NoReturn:
    """End the process: nothing more may be published or committed; the next start recovers."""
    traceback.print_exception(error)
    print(f"sbic: stopped by an unexpected error: {error!r}", file=sys.stderr, flush=True)
    os._exit(SOFTWARE_ERROR)
