"""A dead letter has the bad record byte by byte, unless it is too large to keep."""

import pytest

from sbic.wire.bad import BadRecord, Reason
from sbic.wire.dead_letters import MAX_BYTES, Origin, dead_letter, read_headers, replayed_mark

BAD = BadRecord(Reason.NOT_JSON, "the value is not JSON")


@pytest.mark.parametrize(
    ("key", "value"), [(None, None), (b"", b""), (b"w1", b"\xff\0"), (b"k", b"v" * (MAX_BYTES - 1))]
)
def test_key_and_value_stay_as_they_came(key: bytes | None, value: bytes | None) -> None:
    letter = dead_letter(Origin("sbic.labels", 0, 1), key, value, BAD)
    assert (letter.key, letter.value) == (key, value)
    assert "sbic.truncated" not in dict(letter.headers)


@pytest.mark.parametrize("missing", range(4))
def test_headers_without_a_value_or_with_endless_numbers_are_no_error(missing: int) -> None:
    headers: list[tuple[str, bytes | None]] = [*replayed_mark(Origin("sbic.labels", 0, 1))]
    headers[missing] = headers[missing][0], None
    read_headers(headers)
    headers[missing] = headers[missing][0], b"9" * 5000
    read_headers(headers)


@pytest.mark.parametrize(("key", "value"), [(10, 5 << 20), (5 << 20, 10), (5 << 20, 5 << 20)])
def test_what_grew_too_large_by_decompression_is_cut_and_marked(key: int, value: int) -> None:
    letter = dead_letter(Origin("sbic.labels", 0, 1), b"k" * key, b"v" * value, BAD)
    assert letter.key is not None
    assert letter.value is not None
    assert 0 < len(letter.key) + len(letter.value) <= MAX_BYTES
    assert dict(letter.headers)["sbic.truncated"] == b"true"
