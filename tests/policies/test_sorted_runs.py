"""A sorted list in runs is a sorted list."""

from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.policies import sorted_runs
from pipeline.policies.sorted_runs import SortedRuns

numbers = st.integers(0, 60)


@pytest.fixture(scope="module", autouse=True)
def _short_runs() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sorted_runs, "LONG", 6)
        patch.setattr(sorted_runs, "SHORT", 2)
        yield


@given(st.lists(numbers, max_size=200), numbers)
def test_items_stay_in_order_whatever_comes_and_goes(toggled: list[int], start: int) -> None:
    runs = SortedRuns[tuple[int]]()
    items: set[tuple[int]] = set()
    for number in toggled:
        item = (number,)
        if item in items:
            runs.remove(item)
        else:
            runs.add(item)
        items ^= {item}
        assert list(runs) == sorted(items)
    assert list(runs.since((start,))) == sorted(item for item in items if item[0] >= start)


@given(st.permutations(range(60)), st.permutations(range(60)))
def test_runs_are_neither_long_nor_many(added: list[int], removed: list[int]) -> None:
    runs = SortedRuns[tuple[int]]()
    for number in added:
        runs.add((number,))
    for left, number in zip(range(59, -1, -1), removed, strict=True):
        runs.remove((number,))
        lengths = [len(run) for run in runs._runs]
        assert max(lengths) <= 6
        assert len(lengths) == 1 or min(lengths) >= 2
        assert sum(lengths) == left
