"""The text of a file, or of standard input for `-`."""

import sys
from pathlib import Path
from typing import NamedTuple

from pipeline.files.errors import BadFile


class Source(NamedTuple):
    """What was read, and the name to call it in messages."""

    name: str
    text: str


def read_source(path: str) -> Source:
    """All of a file, which must be text in UTF-8; a byte order mark is dropped."""
    name = "standard input" if path == "-" else path
    try:
        content = sys.stdin.buffer.read() if path == "-" else Path(path).read_bytes()
    except OSError as error:
        raise BadFile(name, f"cannot be read: {error.strerror}") from error
    return Source(name, decoded(content, name))


def decoded(content: bytes, name: str) -> str:
    """The bytes as text, or where they stop being text."""
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise BadFile(name, "is not text in UTF-8", line_of(content, error.start)) from error
    if "\0" in text:
        raise BadFile(name, "is not text: it has a NUL byte", line_of(content, content.index(0)))
    return text


def line_of(content: bytes, position: int) -> int:
    """The line on which that byte is.

    >>> line_of(b"task,label\\nt1,1\\n", 12)
    2
    """
    return content.count(b"\n", 0, position) + 1
