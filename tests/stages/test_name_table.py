"""Names get numbers in the order of their first appearance, as a dictionary would give them."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from sbic.engine.compiled import uncompiled
from sbic.instance import names as name_table
from sbic.instance.names import FREE, NameTable
from sbic.wire.columns import Names

NAMES = st.lists(st.text(min_size=1, max_size=9) | st.sampled_from(["t1", "t2", "é" * 128]))


@given(st.lists(NAMES))
def test_names_are_numbered_as_a_dictionary_would(batches: list[list[str]]) -> None:
    table, expected = NameTable(), dict[str, int]()
    for names in batches:
        assert table.find(Names.of(names)).tolist() == [expected.get(name, FREE) for name in names]
        numbers = [expected.setdefault(name, len(expected)) for name in names]
        assert table.number(Names.of(names)).tolist() == numbers
        assert list(table.names_of(np.array(numbers, np.int64))) == names
    assert table.names == list(expected)
    assert [table.known(name) for name in expected] == list(expected.values())


def test_many_names_are_found_again() -> None:
    names = [f"task-{number}" for number in range(20_000)]
    table = NameTable()
    for start in range(0, len(names), 700):
        table.number(Names.of(names[start : start + 700]))
    assert table.find(Names.of(names[::-1])).tolist() == list(range(len(names)))[::-1]
    assert table.known("task-20000") is None


def test_two_tables_hash_with_different_keys() -> None:
    one, other = NameTable(), NameTable()
    assert one._index.key.tolist() != other._index.key.tolist()


@given(st.text(max_size=40).map(str.encode), st.integers(0, 2**32 - 1), st.integers(0, 2**32 - 1))
def test_the_hash_is_the_same_without_numba(text: bytes, one: int, other: int) -> None:
    arguments = np.frombuffer(text, np.uint8), 0, len(text), np.array([one, other])
    found = uncompiled(name_table._hash)(*arguments)
    assert name_table._hash(*arguments) == found
    assert 0 <= found < 2**32
