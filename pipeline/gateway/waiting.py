"""Waits for an event, but not for ever."""

import asyncio


async def wait_for(event: asyncio.Event, seconds: float) -> None:
    """Wait until it is set, but not for longer."""
    try:
        async with asyncio.timeout(seconds):
            await event.wait()
    except TimeoutError:
        return
