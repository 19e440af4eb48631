"""A short soak: some of everything that can go wrong, and then every count is right."""

import pytest

from tests.brokers import needs_proc
from tests.soak.run import soak

SECONDS = 45.0  # of faults; with the start, the rest and the recounts about twice as long
SEED = 3  # the first with every kind of fault by then, and a stall longer than a session


@pytest.mark.broker
@needs_proc
async def test_after_faults_at_random_everything_is_counted_once() -> None:
    found = await soak(SEED, SECONDS, say=print)
    assert found.wrong == []
    assert min(found.labels, found.requests, found.faults) > 0
