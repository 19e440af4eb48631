"""Changes are published at intervals that grow with what a publication costs."""

import asyncio

from sbic.instance.publication import Throttle


async def test_the_next_publication_is_due_after_the_interval_and_is_announced() -> None:
    announced, loop = asyncio.Event(), asyncio.get_running_loop()
    throttle = Throttle(0.01, 10.0, lambda seconds: loop.call_later(seconds, announced.set))
    assert throttle.is_due
    throttle.published(spent=0.0)
    assert not throttle.is_due
    async with asyncio.timeout(60):
        await announced.wait()
    assert throttle.is_due


async def test_expensive_publications_take_at_most_a_share_of_the_time() -> None:
    throttle = Throttle(0.01, 10.0, lambda _: None)
    now = asyncio.get_running_loop().time()
    throttle.published(spent=0.05)
    assert 4 < throttle.due - now < 6
    throttle.published(spent=100.0)
    assert 9 < throttle.due - now < 11
