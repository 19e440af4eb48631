"""Writes a file completely or not at all."""

import os
from collections.abc import Iterable
from pathlib import Path

from pipeline.files.errors import BadFile


def check_writable(path: Path) -> None:
    """Refuse a path that cannot be written, before any work is done for it."""
    if path.is_dir():
        raise BadFile(str(path), "is a folder, not a file")
    if not path.parent.is_dir():
        raise BadFile(str(path), f"the folder {path.parent} does not exist")
    if not os.access(path if path.exists() else path.parent, os.W_OK):
        raise BadFile(str(path), "cannot be written: permission denied")


def write_atomically(path: Path, content: bytes) -> None:
    """Write beside the file, then rename: a reader sees the old content or the new."""
    write_parts_atomically(path, [content])


def write_parts_atomically(path: Path, parts: Iterable[bytes]) -> None:
    """The same, for content that does not fit into memory."""
    check_writable(path)
    try:
        if path.exists() and not path.is_file():  # a device or a pipe has no content to protect
            _write(path, parts)
            return
        target = path.resolve()  # follow a link instead of replacing it
        part = target.with_name(f".{target.name}.{os.getpid()}.part")
        try:
            _write(part, parts)
            if target.exists():
                part.chmod(target.stat().st_mode)
            part.replace(target)
        finally:
            part.unlink(missing_ok=True)
    except OSError as error:
        raise BadFile(str(path), f"cannot be written: {error.strerror}") from error


def _write(path: Path, parts: Iterable[bytes]) -> None:
    with path.open("wb") as file:
        file.writelines(parts)
