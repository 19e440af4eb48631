"""What is fetched while a rebalance goes on is fetched again, also if nothing follows it."""

from types import SimpleNamespace
from typing import Any

import pytest
from faust.types import TP

from pipeline.batched.batch import batch_of
from pipeline.batched.consumer import BatchConsumer

MINE, LOST, UNSOUGHT = TP("labels", 0), TP("labels", 1), TP("labels", 2)


class Sought:
    """In the place of Faust's consumer thread."""

    def __init__(self) -> None:
        self.places: dict[TP, int] = {}

    async def seek_wait(self, places: dict[TP, int]) -> None:
        self.places.update(places)


@pytest.mark.parametrize("flows", [False, True])
async def test_a_fetch_during_a_rebalance_goes_back(
    flows: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    consumer = BatchConsumer.__new__(BatchConsumer)
    thread = Sought()

    async def fetched(_timeout: float) -> tuple[dict[TP, list[Any]], None]:
        record = SimpleNamespace(offset=7, timestamp=0, timestamp_type=0)
        return {tp: [record] for tp in (MINE, LOST, UNSOUGHT)}, None

    for name, value in {
        "app": SimpleNamespace(consumer_generation_id=1),
        "flow_active": flows,
        "next_offset": {MINE: 7, LOST: 7},
        "gap": {},
        "_thread": thread,
        "_wait_next_records": fetched,
        "assignment": lambda: {MINE, UNSOUGHT},
        "_is_changelog_tp": lambda tp: False,
        "_buffered_partitions": set(),
    }.items():
        monkeypatch.setattr(consumer, name, value, raising=False)
    monkeypatch.setattr(BatchConsumer, "should_stop", False)
    handed_out = [batch_of(message).parts async for _, message in consumer.getmany(1.0)]
    if flows:
        assert [set(parts) for parts in handed_out] == [{MINE, LOST}]
        assert thread.places == {}
    else:
        assert handed_out == []
        assert thread.places == {MINE: 7}
