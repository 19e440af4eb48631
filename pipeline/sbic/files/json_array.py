"""Streams the elements of a JSON array from a file of any size.

Elements are objects, arrays or strings: a number could be cut at the end of a chunk.
"""

import gzip
import json
import zlib
from codecs import getincrementaldecoder
from collections.abc import Callable, Iterator
from typing import IO, Any

from sbic.files.tables import GZIP, MAX_SIZE, BadFile, chunks_of

CHUNK_BYTES = 1 << 20
LONGEST = 1 << 28  # characters of one element
BLANK = " \t\r\n"


def elements(
    path: str, advance: Callable[[int], None] = lambda _: None, max_size: int = MAX_SIZE
) -> Iterator[Any]:
    """Yield every element of the array in a file; gzip is unpacked, up to `max_size` bytes.

    `advance` is called with the number of bytes read. Raises `BadFile`.
    """
    try:
        with open(path, "rb") as file:
            yield from _Elements(path, _chunks(file, path, advance, max_size))
    except OSError as error:
        raise BadFile(path, f"cannot be read: {error.strerror or error}") from error


def _chunks(
    file: IO[bytes], name: str, advance: Callable[[int], None], max_size: int
) -> Iterator[str]:
    """Yield the text of the file in chunks."""
    is_packed = file.peek(2)[:2] == GZIP  # type: ignore[attr-defined]  # a buffered reader
    source: IO[bytes] = gzip.GzipFile(fileobj=file) if is_packed else file  # type: ignore[assignment]
    decoder = getincrementaldecoder("utf-8-sig")()
    done = 0
    try:
        for chunk in chunks_of(source.read, name, max_size, CHUNK_BYTES):
            yield decoder.decode(chunk)
            advance(file.tell() - done)
            done = file.tell()
        yield decoder.decode(b"", final=True)
    except UnicodeDecodeError:
        raise BadFile(name, "is not text in UTF-8") from None
    except EOFError:
        raise BadFile(name, "is incomplete: its gzip ends too early") from None
    except zlib.error as error:
        raise BadFile(name, f"is damaged: its gzip cannot be unpacked ({error})") from None


class _Elements:
    """Decodes an array from chunks of text; decoded text is dropped."""

    def __init__(self, name: str, chunks: Iterator[str]) -> None:
        self._name = name
        self._chunks = chunks
        self._text = ""
        self._at = 0
        self._line = 1

    def __iter__(self) -> Iterator[Any]:
        if self._next_character() != "[":
            raise self._bad("is not a JSON array")
        self._at += 1
        if self._next_character() != "]":
            yield self._element()
            while (character := self._next_character()) == ",":
                self._at += 1
                yield self._element()
            if character != "]":
                raise self._bad("is not JSON: , or ] is missing" if character else NOT_WHOLE)
        self._at += 1
        if self._next_character():
            raise self._bad("has more than one JSON value")

    def _next_character(self) -> str:
        """Peek at the next character that is not blank; empty at the end."""
        while True:
            while self._at < len(self._text):
                if self._text[self._at] not in BLANK:
                    return self._text[self._at]
                self._at += 1
            if not self._read_on():
                return ""

    def _element(self) -> Any:
        self._next_character()
        while True:
            try:
                element, end = DECODER.raw_decode(self._text, self._at)
            except (json.JSONDecodeError, RecursionError) as error:
                # an incomplete element looks like a bad one: retry with twice the text
                start, had = self._at, len(self._text) - self._at
                while len(self._text) - self._at < min(2 * had, LONGEST) and self._read_on():
                    pass
                if len(self._text) - self._at == had:
                    raise self._decode_error(error, start) from None
            else:
                self._at = end
                return element

    def _decode_error(self, error: Exception, start: int) -> BadFile:
        if not isinstance(error, json.JSONDecodeError):
            return self._bad("is nested too deeply")
        self._at += error.pos - start  # the text may have been moved
        if self._at >= len(self._text):
            return self._bad(NOT_WHOLE)
        return self._bad(f"is not JSON: {error.msg}")

    def _read_on(self) -> bool:
        """Drop the decoded text and read a chunk; returns whether there was one."""
        chunk = next(self._chunks, None)
        if chunk is None:
            return False
        self._line += self._text.count("\n", 0, self._at)
        self._text = self._text[self._at :] + chunk
        self._at = 0
        return True

    def _bad(self, problem: str) -> BadFile:
        return BadFile(self._name, problem, self._line + self._text.count("\n", 0, self._at))


DECODER = json.JSONDecoder()
NOT_WHOLE = "is incomplete: it ends within its JSON"
