"""Parses server-sent events, as the gateway sends them."""

from collections.abc import AsyncIterator
from typing import NamedTuple

MOST_BYTES = 1 << 24  # of one event; a gateway never sends more


class Event(NamedTuple):
    """The name of an event, and its data."""

    kind: str
    data: bytes


async def events(chunks: AsyncIterator[bytes]) -> AsyncIterator[Event]:
    """The events in a stream of arbitrary chunks; comments are skipped."""
    waiting = bytearray()
    async for chunk in chunks:
        searched = max(len(waiting) - 1, 0)  # a chunk may end between the two newlines
        waiting += chunk
        while (end := waiting.find(b"\n\n", searched)) >= 0:
            if event := _read(bytes(waiting[:end])):
                yield event
            del waiting[: end + 2]
            searched = 0
        if len(waiting) > MOST_BYTES:
            raise ValueError(f"an event has more than {MOST_BYTES} bytes")


def _read(text: bytes) -> Event | None:
    """The event in these lines.

    >>> _read(b"event: status\\ndata: {}"), _read(b": still here")
    (Event(kind='status', data=b'{}'), None)
    """
    fields = dict(line.partition(b": ")[::2] for line in text.split(b"\n"))
    if b"event" not in fields or b"data" not in fields:
        return None
    return Event(fields[b"event"].decode(errors="replace"), fields[b"data"])
