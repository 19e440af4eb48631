"""Handles standard output that cannot be written: a closed pipe, or a full disk."""

import io
import os
import sys
from errno import EPIPE
from typing import Any, Never

import click

CLOSED_PIPE = 128 + 13  # as for a program that SIGPIPE ends


class OutputLost(Exception):
    """Standard output cannot be written.

    This is not an `OSError`: click and rich handle these themselves, and a broken connection to
    Kafka is one too.
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
    """Make every failed write to standard output raise `OutputLost`."""
    if sys.stdout is None:  # closed by the caller: reserve its file descriptor
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
    """Exit with one line on standard error; without any if a pipe was closed."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)  # buffered output would fail again, with a traceback
    if lost.is_closed_pipe:
        sys.exit(CLOSED_PIPE)
    click.echo(f"sbic: {lost}", err=True)
    sys.exit(1)
