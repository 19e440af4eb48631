"""All items are handed out, in order, and never faster than the rate."""

from time import monotonic

from sbic.kafka.writer import PORTION, paced


async def test_without_a_rate_all_come_in_order_in_portions() -> None:
    things = list(range(2 * PORTION + 5))
    portions = [portion async for portion in paced(things, None)]
    assert [thing for portion in portions for thing in portion] == things
    assert max(map(len, portions)) == PORTION


async def test_with_a_rate_never_more_than_are_due() -> None:
    things = list(range(60))
    start = monotonic()
    done: list[int] = []
    async for portion in paced(things, 200):
        done += portion
        assert len(done) <= 1 + (monotonic() - start) * 200
    assert done == things
