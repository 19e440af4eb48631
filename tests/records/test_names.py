"""Names as bytes: what is read is what was written."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from sbic.wire.columns import Names, read_names

LISTS = st.lists(st.text(min_size=1, max_size=6))


@given(st.lists(LISTS))
def test_names_of_many_records_come_back(records: list[list[str]]) -> None:
    packed = [Names.of(names) for names in records]
    lengths = np.concatenate([np.zeros(0, np.int64), *(names.lengths for names in packed)])
    text = b"".join(names.text.tobytes() for names in packed)
    found = read_names(text, lengths.astype("<u2"))
    assert list(found) == [name for names in records for name in names]
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
