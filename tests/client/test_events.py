"""Server-sent events are read wherever their chunks end, and whatever their size."""

from collections.abc import AsyncIterator

import pytest
from hypothesis import given
from hypothesis import strategies as some

from sbic.client import http as module
from sbic.client.http import ServerEvent, events

STREAM = b": hello\n\nevent: a\ndata: [1]\n\nevent: b\ndata: {}\n\n: still here\n\nevent: c"


async def in_chunks(stream: bytes, size: int) -> AsyncIterator[bytes]:
    for start in range(0, len(stream), size):
        yield stream[start : start + size]


@given(some.integers(1, len(STREAM)))
async def test_events_are_whole_wherever_chunks_end(size: int) -> None:
    found = [event async for event in events(in_chunks(STREAM, size))]
    assert found == [ServerEvent("a", b"[1]"), ServerEvent("b", b"{}")]


async def test_an_event_may_be_large_but_not_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    large = b"event: a\ndata: " + b"x" * 1_000_000 + b"\n\n"
    (event,) = [event async for event in events(in_chunks(large, 60_000))]
    assert len(event.data) == 1_000_000
    monkeypatch.setattr(module, "MOST_BYTES", 500_000)
    with pytest.raises(ValueError, match="more than 500000 bytes"):
        [event async for event in events(in_chunks(large, 60_000))]
