"""Any bytes, any JSON and any mutation of a genuine record, on every topic: labels still count."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.examples import examples
from tests.stages.simulated.log import CHANGELOGS, INPUTS, Log, Write
from tests.stages.simulated.member import SimulatedCluster, SimulatedMember
from tests.stages.simulated.project import SimulatedProject

PARTITIONS = 2
WORKERS = ["ann", "bob", "eve", "fay"]
POISONED = [*INPUTS, *CHANGELOGS, "estimates"]  # no instance reads the others
NUMBERS = st.sampled_from([0, -1, 1, 7, 999, 1e308, 1 << 40, 1 << 62, 1 << 64, None, "", "t" * 300])
MARK = "in place of this"
JSON = st.recursive(
    NUMBERS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner)
)
STRUCTURES = st.one_of(
    st.integers(900, 2000).map(lambda depth: b"[" * depth + b"]" * depth),
    st.integers(150, 1000).map(lambda depth: b'{"a":' * depth + b"1" + b"}" * depth),
    st.sampled_from([10, 1_000_000]).map(lambda size: b"[" + b"0," * size + b"0]"),
    st.sampled_from([b"9" * 5000, b"-1." + b"0" * 5000 + b"1", b"1e5000"]),
    st.sampled_from([b'"\\ud800"', b'"\\u0000"', b'"\xed\xa0\x80"', b'"\\u202e\\u001b[2J"']),
)
"""Values in JSON, or nearly, that are deep, long or strange."""


@st.composite
def mutations(draw: st.DrawFn, value: bytes) -> bytes:
    """A genuine record with a field of its first line changed or added, and some bytes after it."""
    line, newline, rest = value.partition(b"\n")
    fields = json.loads(line)
    name = draw(st.sampled_from([*sorted(fields), "added"]))
    field = fields.get(name)
    if isinstance(field, list) and field and draw(st.booleans()):
        field[draw(st.integers(0, len(field) - 1))] = draw(JSON)
    else:
        fields[name] = draw(JSON)
    if draw(st.booleans()):
        fields[name] = MARK
        line = json.dumps(fields).encode().replace(b'"%s"' % MARK.encode(), draw(STRUCTURES))
        return line + newline + rest
    for place in draw(st.lists(st.integers(0, max(0, len(rest) - 1)), max_size=2)):
        rest = rest[:place] + draw(st.binary(min_size=1, max_size=8)) + rest[place + 1 :]
    return json.dumps(fields).encode() + newline + rest


@st.composite
def poisons(draw: st.DrawFn, log: Log) -> Write:
    """Something for any partition of any topic."""
    topic = draw(st.sampled_from(POISONED))
    genuine = [record.value for part in log[draw(st.sampled_from(POISONED))] for record in part]
    kinds = [
        st.none(),
        st.binary(max_size=40),
        STRUCTURES,
        JSON.map(lambda value: json.dumps(value).encode()),
    ]
    if genuine and genuine[0] is not None:
        some = st.sampled_from([value for value in genuine if value is not None])
        kinds += [some, some.flatmap(mutations), some.flatmap(mutations)]
    return Write(topic, draw(st.integers(0, PARTITIONS - 1)), draw(st.one_of(kinds)), b"forged")


def send(log: Log, when: str, labels: int) -> None:
    for number in range(labels):
        for worker in WORKERS:
            log.produce(f"{when}{number}", worker, 1)


def missing(log: Log, when: str, labels: int) -> int:
    """How many of these labels no posterior counts."""
    posteriors = log.posteriors()
    tasks = [posteriors.get(f"{when}{number}", {"labels": 0}) for number in range(labels)]
    return sum(max(0, len(WORKERS) - task["labels"]) for task in tasks)


@pytest.mark.parametrize("algorithm", ["fast-sbic", "settled"])
@examples(60)
@given(data=st.data())
def test_whatever_anybody_writes_nothing_stops_and_labels_count(
    algorithm: Any, data: st.DataObject
) -> None:
    """A record that could be a user's affects its own label only; no other can be ours."""
    log = Log(PARTITIONS)
    project = SimulatedProject(algorithm, tolerance=1e-4)
    cluster = SimulatedCluster(log, project)
    cluster.rebalance([SimulatedMember(log, project), SimulatedMember(log, project)], [0, 1])
    log.describe({"task": "before0", "prior": 0.4})
    send(log, "before", 2)
    cluster.settle()
    written = data.draw(st.lists(poisons(log), min_size=1, max_size=4))
    for write in written:
        log.write(write)
    cluster.settle()
    send(log, "between", 2)
    cluster.settle()
    # everybody crashes, and others recover from what is there
    cluster.rebalance([SimulatedMember(log, project), SimulatedMember(log, project)], [1, 0])
    send(log, "after", 3)
    cluster.settle()
    lost = missing(log, "before", 2) + missing(log, "between", 2) + missing(log, "after", 3)
    assert lost <= sum(is_valid(write) for write in written)


def is_valid(write: Write) -> bool:
    """Whether a record may be a valid one of a user."""
    return write.topic in ("labels", "tasks") and (write.value or b"").startswith(b"{")
