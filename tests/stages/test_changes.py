"""Changed numbers: each once, in the order of their first change, however they come and go."""

from hypothesis import given
from hypothesis import strategies as st

from sbic.instance.crowd import Changes

numbers = st.lists(st.integers(0, 200), max_size=40)
steps = st.lists(st.one_of(numbers, st.none() | st.integers(0, 50)), max_size=30)


@given(steps)
def test_changes_are_an_ordered_set(steps: list[list[int] | int | None]) -> None:
    changes, expected = Changes(), list[int]()
    for step in steps:
        if isinstance(step, list):
            changes.add(step)
            expected += [number for number in dict.fromkeys(step) if number not in expected]
        else:
            most = len(expected) if step is None else step
            assert changes.take(step).tolist() == expected[:most]
            expected = expected[most:]
        assert len(changes) == len(expected)
        assert [number for number in range(201) if number in changes] == sorted(expected)
