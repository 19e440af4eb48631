"""Why a record is refused."""

from collections.abc import Callable

import pytest

from sbic.wire.bad import BadRecord, Reason


def reason_of(parse: Callable[..., object], *record: bytes | None) -> Reason:
    """The reason; the sentence that goes with it is short, whatever was sent."""
    with pytest.raises(BadRecord) as bad:
        parse(*record)
    assert len(bad.value.message) < 500
    return bad.value.reason
