"""A label that is forwarded twice counts once; a forged origin affects no other label."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sbic.instance.requests import Rules
from sbic.instance.taken import Outcome
from sbic.wire.assignments import encode_request
from sbic.wire.dead_letters import Header, Origin
from sbic.wire.labels import encode_label
from sbic.wire.seal import KEY_BYTES, Seal, read_key
from tests.stages.assigning import AssigningInstance
from tests.stages.simulated.log import Log, SimulatedRecord
from tests.stages.simulated.one_instance import OneInstance
from tests.stages.simulated.project import SEAL, SimulatedProject

LAST = SimulatedProject(repeats="last")
FROM = Origin("labels", 0, 42)


def sealed(topic: str, value: bytes, origin: Origin) -> list[Header]:
    """The headers of a record that an instance has forwarded to partition 0."""
    return [SEAL.origin_header(topic, 0, value, origin)]


def forward(log: Log, label: int, origin: Origin | None = None) -> SimulatedRecord:
    """A label of ann on t1, forwarded from elsewhere if it has an origin."""
    offset = len(log["labels"][0])
    value = encode_label("t1", "ann", label)
    headers = sealed("labels", value, origin) if origin else []
    record = SimulatedRecord(offset, offset, value, b"ann", headers)
    log["labels"][0].append(record)
    return record


def test_a_label_forwarded_again_does_not_replace_a_later_one_even_after_a_crash() -> None:
    log = Log(1)
    instance = OneInstance(log, LAST)
    instance.take(0, [forward(log, 1, FROM)])
    instance.take(0, [forward(log, -1)])
    again = OneInstance(log, LAST)
    taken = again.take(0, [forward(log, 1, FROM)])
    assert taken.outcomes[Outcome.REPEATED] == 1
    again.count()
    posterior = again.results()["t1"]
    assert (posterior["labels"], posterior["prediction"]) == (1, -1)


def test_a_label_from_the_same_place_with_another_content_counts() -> None:
    log = Log(1)
    instance = OneInstance(log, LAST)
    instance.take(0, [forward(log, 1, FROM)])
    taken = instance.take(0, [forward(log, -1, FROM)])
    assert taken.outcomes[Outcome.COUNTED] == 1
    assert instance.results()["t1"]["prediction"] == -1


def test_a_label_with_a_forged_origin_is_one_like_any_other() -> None:
    log = Log(1)
    instance = OneInstance(log, LAST)
    instance.take(0, [forward(log, 1, FROM)])
    instance.take(0, [forward(log, -1)])
    again = forward(log, 1)
    again.headers = [Seal(b"another key").origin_header("labels", 0, again.value, FROM)]
    assert instance.take(0, [again]).outcomes[Outcome.COUNTED] == 1


def test_a_label_that_was_forwarded_before_the_key_changed_still_counts_once() -> None:
    record = forward(Log(1), 1, FROM)
    assert Seal(b"new", [b"newer", SEAL.key]).origin(record, partitions=1) == FROM
    assert Seal(b"new", [b"newer"]).origin(record, partitions=1) is None


def test_a_request_forwarded_again_is_answered_once_even_after_a_crash() -> None:
    assigning = AssigningInstance(Rules(), partitions=1)
    assigning.describe([{"task": f"t{number}"} for number in range(5)])
    headers = sealed("requests", encode_request("ann"), Origin("requests", 0, 42))
    [given] = assigning.ask("ann", headers=headers)
    assert given["id"] == "0-42-0"
    assert assigning.ask("ann", headers=headers) == []
    later = assigning.successor(Rules())
    assert later.ask("ann", headers=headers) == []
    assert len(later.ask("bob", headers=headers)) == 1  # they are ann's


def test_an_origin_without_a_seal_is_not_believed() -> None:
    assigning = AssigningInstance(Rules(), partitions=1)
    assigning.describe([{"task": "t1"}])
    [given] = assigning.ask("ann", headers=[("sbic.origin", b"requests/0/42")])
    assert given["id"] == "0-0-0"


@pytest.mark.parametrize("size", [0, 1, 31, 33, 64, 65, 100, 100_000])
def test_only_a_key_of_the_right_size_is_one(size: int) -> None:
    assert read_key(bytes(size).hex().encode()) is None


TEXTS = st.none() | st.binary(max_size=80)


@given(
    value=TEXTS | st.binary().map(lambda key: key.hex().encode()),
    headers=st.lists(st.tuples(st.sampled_from(["sbic.seal", "sbic.origin", "x"]), TEXTS)),
)
def test_nothing_on_the_topic_of_the_seal_or_in_headers_raises(
    value: bytes | None, headers: list[Header]
) -> None:
    key = read_key(value)
    seal = Seal(bytes(KEY_BYTES), [key] if key is not None else [])
    record = SimulatedRecord(0, 0, value, None, headers)
    assert seal.origin(record, partitions=1) is None
    assert not seal.is_on(record)
