"""Names as bytes: what is read is what was written, and what cannot be names is found."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sbic.wire.columns import Names, read_names

LISTS = st.lists(st.text(min_size=1, max_size=6))


@given(st.lists(LISTS))
def test_names_of_many_records_come_back(records: list[list[str]]) -> None:
    packed = [Names.of(names) for names in records]
    lengths = np.concatenate([np.zeros(0, np.int64), *(names.lengths for names in packed)])
    found, are_ids = read_names(
        [names.text.tobytes() for names in packed],
        lengths.astype("<u2"),
        np.array([len(names) for names in records], np.int64),
    )
    assert list(found) == [name for names in records for name in names]
    assert are_ids.all()
    assert list(Names.joined(packed)) == list(found)


@given(LISTS, st.data())
def test_some_of_them(names: list[str], data: st.DataObject) -> None:
    packed = Names.of(names)
    first = data.draw(st.integers(0, len(names)))
    end = data.draw(st.integers(first, len(names)))
    assert list(packed.part(first, end)) == names[first:end]
    places = data.draw(st.lists(st.integers(0, len(names) - 1))) if names else []
    assert list(packed.take(np.array(places, np.int64))) == [names[place] for place in places]
    assert [packed[place] for place in range(len(names))] == names


@pytest.mark.parametrize(
    ("text", "lengths"),
    [
        (b"t1", [1]),
        (b"t1", [3]),
        (b"t1", [2, 0]),
        (b"t1t2", [2, 1]),
        (b"t1t2", [65535, 2]),
        (b"x" * 257, [257]),
        (b"\xff\xfe", [2]),
        ("é".encode(), [1, 1]),
        ("aé".encode(), [2, 1]),
    ],
)
def test_a_record_whose_names_cannot_be_spoils_no_other(text: bytes, lengths: list[int]) -> None:
    good = "très"
    size = len(good.encode())
    names, are_ids = read_names(
        [good.encode(), text, good.encode()],
        np.array([size, *lengths, size], "<u2"),
        np.array([1, len(lengths), 1]),
    )
    assert are_ids.tolist() == [True, False, True]
    assert names[0] == names[len(names) - 1] == good
