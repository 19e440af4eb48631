"""Reads the text of a file, or of standard input for `-`: unpacked and decoded."""

import gzip
import sys
import zlib
from codecs import BOM_UTF16_BE, BOM_UTF16_LE
from pathlib import Path
from typing import NamedTuple

from pipeline.files.errors import BadFile

GZIP = b"\x1f\x8b"
ZIP = b"PK\x03\x04"


class Source(NamedTuple):
    """The text of a file, and its name for messages."""

    name: str
    text: str


def read_source(path: str) -> Source:
    """All of a file: UTF-8, or UTF-16 with a byte order mark; gzip is unpacked."""
    name = "standard input" if path == "-" else path
    try:
        content = sys.stdin.buffer.read() if path == "-" else Path(path).read_bytes()
    except OSError as error:
        raise BadFile(name, f"cannot be read: {error.strerror}") from error
    return Source(name, decoded(unpacked(content, name), name))


def unpacked(content: bytes, name: str) -> bytes:
    """The content without gzip, which is detected by its first bytes.

    >>> unpacked(gzip.compress(b"task"), "tasks.csv"), unpacked(b"task", "tasks.csv")
    (b'task', b'task')
    """
    if content.startswith(ZIP):
        raise BadFile(name, "is a ZIP archive or a workbook, not text; save it as CSV in UTF-8")
    if not content.startswith(GZIP):
        if content and name.lower().endswith(".gz"):
            raise BadFile(name, "is not gzip, in spite of its name; rename it without .gz")
        return content
    try:
        return gzip.decompress(content)
    except EOFError as error:
        raise BadFile(name, "is incomplete: its gzip ends too early") from error
    except (OSError, zlib.error) as error:
        raise BadFile(name, f"is damaged: its gzip cannot be unpacked ({error})") from error


def decoded(content: bytes, name: str) -> str:
    """Decode the bytes; raises `BadFile` with the line of the first bad one."""
    wide = content.startswith((BOM_UTF16_LE, BOM_UTF16_BE))
    encoding = "utf-16" if wide else "utf-8-sig"
    try:
        text = content.decode(encoding)
    except UnicodeDecodeError as error:
        before = content[: error.start].decode(encoding, "ignore")
        problem = f"is not text in {'UTF-16' if wide else 'UTF-8'}; save it as UTF-8"
        raise BadFile(name, problem, line_of(before, len(before))) from error
    if "\0" in text:
        problem = "is not text: it has a NUL byte; save it as UTF-8"
        raise BadFile(name, problem, line_of(text, text.index("\0")))
    return text


def line_of(text: str, position: int) -> int:
    """The line number of a position.

    >>> line_of("task,label\\nt1,1\\n", 12)
    2
    """
    return text.count("\n", 0, position) + 1
