"""The second half of the posteriors of open tasks, written as JSON by compiled code.

Most posteriors have the same fields there, and formatting them in Python would take longer than
computing them.
"""

import numpy as np
from numpy.typing import NDArray

from pipeline.inference.compiled import kernel
from pipeline.inference.labels import Ints
from pipeline.records.posteriors import TASKS

Bytes = NDArray[np.uint8]
DIGITS = 20  # of a number at most
SOURCE_BYTES = 2 * DIGITS + 4
TAIL_BYTES = 3 * DIGITS + 100
TEXT_BYTES = 1 << 22


def _bytes(word: bytes) -> Bytes:
    return np.frombuffer(word, np.uint8)


LABELS = _bytes(b',"labels":')
SOURCES = _bytes(b',"status":"open","sources":{')
DESCRIBED = _bytes(b'"%b":' % TASKS.encode())
UPDATED = _bytes(b'},"updated_at":')


def tails(labels: Ints, updated_at: Ints, sources: Ints, described: Ints) -> list[bytes]:
    """The part of each record after the belief.

    >>> tails(np.array([2]), np.array([7]), np.array([[0, 43]]), np.array([5]))
    [b',"labels":2,"status":"open","sources":{"1":42,"tasks":5},"updated_at":7}']
    """
    found: list[bytes] = []
    row_bytes = sources.shape[1] * SOURCE_BYTES + TAIL_BYTES
    at_once = max(1, TEXT_BYTES // row_bytes)
    for first in range(0, len(labels), at_once):
        some = slice(first, first + at_once)
        rows = len(labels[some])
        text, ends = np.empty(rows * row_bytes, np.uint8), np.empty(rows, np.int64)
        columns = labels[some], updated_at[some], sources[some], described[some]
        write_tails(*columns, LABELS, SOURCES, DESCRIBED, UPDATED, text, ends)
        whole, start = text[: ends[-1]].tobytes(), 0
        for end in ends.tolist():
            found.append(whole[start:end])
            start = end
    return found


@kernel
def write_tails(
    labels: Ints,
    updated_at: Ints,
    sources: Ints,
    described: Ints,
    labels_word: Bytes,
    sources_word: Bytes,
    tasks_word: Bytes,
    updated_word: Bytes,
    text: Bytes,
    ends: Ints,
) -> None:
    """Write the tail of each row to `text`, and its end to `ends`."""
    at = 0
    for row in range(len(labels)):
        at = write_word(text, at, labels_word)
        at = write_number(text, at, labels[row])
        at = write_word(text, at, sources_word)
        is_first = True
        for partition in range(sources.shape[1]):
            if sources[row, partition] > 0:
                if not is_first:
                    text[at] = 44  # ,
                    at += 1
                is_first = False
                text[at] = 34  # "
                at = write_number(text, at + 1, partition)
                text[at] = 34
                text[at + 1] = 58  # :
                at = write_number(text, at + 2, sources[row, partition] - 1)
        if described[row] >= 0:
            if not is_first:
                text[at] = 44
                at += 1
            at = write_word(text, at, tasks_word)
            at = write_number(text, at, described[row])
        at = write_word(text, at, updated_word)
        at = write_number(text, at, updated_at[row])
        text[at] = 125  # }
        at += 1
        ends[row] = at


@kernel
def write_word(text: Bytes, at: int, word: Bytes) -> int:
    """Write a word at this position; return the position after it."""
    for k in range(len(word)):
        text[at + k] = word[k]
    return at + len(word)


@kernel
def write_number(text: Bytes, at: int, number: int) -> int:
    """Write a whole number, 0 or more, at this position; return the position after it."""
    digits = 1
    rest = number // 10
    while rest > 0:
        digits += 1
        rest //= 10
    for k in range(digits):
        text[at + digits - 1 - k] = 48 + number % 10
        number //= 10
    return at + digits
