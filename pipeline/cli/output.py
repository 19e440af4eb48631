"""Standard output that cannot be written: a reader that is gone, or a disk that is full."""

import io
import os
import sys
from errno import EPIPE
from typing import Any, Never

import click

CLOSED_PIPE = 128 + 13  # as for a program that SIGPIPE ends


class OutputLost(Exception):
    """Standard output takes no more.

    It is no `OSError`: click and rich have ways of their own with these, and a broken connection
    to Kafka is one too.
    """

    def __init__(self, error: OSError) -> None:
        super().__init__(f"standard output cannot be written: {error.strerror}")
        self.is_closed_pipe = error.errno == EPIPE


class _Guarded(io.FileIO):
    """Standard output, or `OutputLost`."""

    def write(self, content: Any) -> int:
        try:
            return super().write(content)
        except OSError as error:
            raise OutputLost(error) from None


def guard_output() -> None:
    """Let every write to standard output that fails raise `OutputLost`."""
    if sys.stdout is None:  # closed by the caller: nothing else may get its number
        os.open(os.devnull, os.O_RDONLY)
        number, encoding = 1, "utf-8"
    else:
        number, encoding = sys.stdout.fileno(), sys.stdout.encoding
    raw = _Guarded(number, "wb", closefd=False)
    sys.stdout = io.TextIOWrapper(io.BufferedWriter(raw), encoding, line_buffering=raw.isatty())


def flush_output() -> None:
    """Write what is left, or raise `OutputLost`."""
    if sys.stdout is not None:
        sys.stdout.flush()


def end_without_output(lost: OutputLost) -> Never:
    """End in one line, or in silence where nobody reads any more."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)  # what is still buffered would fail once more, with a traceback
    if lost.is_closed_pipe:
        sys.exit(CLOSED_PIPE)
    click.echo(f"sbic: {lost}", err=True)
    sys.exit(1)
