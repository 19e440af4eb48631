"""The header `traceparent` (W3C Trace Context), carried from a label to its posterior.

A posterior has the header of the label that it counts. If another instance owns the task, the
header is sent with the votes, together with the task.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

TRACEPARENT = "traceparent"
FORM = re.compile(rb"[0-9a-f]{2}-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}")

Headers = Iterable[tuple[str, bytes | None]]


class TracedTask(NamedTuple):
    """A task, and the trace of a label on it."""

    task: str
    traceparent: bytes


def traceparent_of(headers: Headers) -> bytes | None:
    """Return the trace in headers; None if it is absent or malformed.

    >>> traceparent_of([("traceparent", b"00-" + b"a" * 32 + b"-" + b"b" * 16 + b"-01")])
    b'00-aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa-bbbbbbbbbbbbbbbb-01'
    >>> traceparent_of([("traceparent", b"00-0-0-0"), ("other", None)]) is None
    True
    """
    for name, value in headers:
        if name == TRACEPARENT and value is not None and FORM.fullmatch(value):
            return value
    return None


def vote_headers(traced: Sequence[TracedTask]) -> list[tuple[str, bytes | None]]:
    """Headers for a record of votes."""
    return [(TRACEPARENT, one.traceparent + b" " + one.task.encode()) for one in traced]


def traced_tasks(headers: Headers) -> Iterator[TracedTask]:
    """Yield the tasks and traces in the headers of a record of votes.

    >>> one = TracedTask("t 1", b"00-" + b"a" * 32 + b"-" + b"b" * 16 + b"-01")
    >>> list(traced_tasks(vote_headers([one]))) == [one]
    True
    """
    for name, value in headers:
        traceparent, _, task = (value or b"").partition(b" ")
        if name == TRACEPARENT and FORM.fullmatch(traceparent):
            yield TracedTask(task.decode(errors="replace"), traceparent)
