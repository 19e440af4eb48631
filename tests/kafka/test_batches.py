"""Names of headers may be any bytes: no consumer stops at them."""

import subprocess
from typing import Any

import pytest
from aiokafka.codec import gzip_encode
from aiokafka.consumer import fetcher
from aiokafka.record.default_records import DefaultRecordBatchBuilder
from aiokafka.record.memory_records import MemoryRecords
from hypothesis import given
from hypothesis import strategies as st

from sbic.kafka.batches import AnyRecords
from sbic.local.broker import EmbeddedBroker
from sbic.project.topics import Topics
from tests.agents.kafka import KCAT, needs_kcat, project
from tests.instances import instance
from tests.projects import sbic

NAMES = st.lists(st.binary(min_size=1, max_size=12), max_size=3)
RECORDS = st.lists(st.tuples(st.none() | st.binary(), st.none() | st.binary(), NAMES), min_size=1)


def batch(records: Any, *, is_packed: bool) -> bytes:
    """A batch whose names of headers are these bytes: aiokafka writes text only."""
    builder = DefaultRecordBatchBuilder(2, 0, False, -1, -1, -1, 1 << 20)
    for offset, (key, value, names) in enumerate(records):  # keys and values without "~"
        headers = [("~" * len(name), b"---") for name in names]
        assert builder.append(offset, 1_000, key, value, headers)
    built = bytes(builder.build())
    head, rest = bytearray(built[:61]), built[61:]
    at = 0
    for _, _, names in records:
        for name in names:
            at = rest.index(b"~" * len(name), at)
            rest = rest[:at] + name + rest[at + len(name) :]
            at += len(name)
    if is_packed:
        rest = gzip_encode(rest)
        head[22] |= 1
        head[8:12] = (49 + len(rest)).to_bytes(4, "big")
    return bytes(head) + rest


def text(name: bytes) -> str:
    found = name.decode(errors="surrogateescape")
    return "".join("?" if "\udc80" <= c <= "\udcff" else c for c in found)


@pytest.mark.parametrize("is_packed", [False, True])
@given(batches=st.lists(RECORDS, max_size=3))
def test_names_are_read_with_question_marks_and_all_else_as_it_is(
    batches: Any, is_packed: bool
) -> None:
    clean = [
        [((key or b"").replace(b"~", b"-"), (value or b"").replace(b"~", b"-"), names)]
        for records in batches
        for key, value, names in records
    ]
    data = b"".join(batch(records, is_packed=is_packed) for records in clean)
    read = AnyRecords(data)
    found = []
    while read.has_next():
        found += [(each.key, each.value, each.headers) for each in read.next_batch()]
    assert found == [
        (key, value, [(text(name), b"---") for name in names])
        for records in clean
        for key, value, names in records
    ]


def test_aiokafka_itself_stops_at_such_a_name() -> None:
    """Otherwise `sbic/kafka/batches.py` is not needed any more."""
    data = batch([(b"key", b"value", [b"\xff"])], is_packed=False)
    with pytest.raises(UnicodeDecodeError):
        list(MemoryRecords(data).next_batch())
    assert fetcher.MemoryRecords is AnyRecords


@needs_kcat
async def test_a_record_with_such_a_name_stops_nobody_on_any_topic(broker: EmbeddedBroker) -> None:
    here = await project(broker, partitions=1)
    server = here.settings.bootstrap_servers[0]
    label = b'w1:{"task":"t1","worker":"w1","label":1}\n'

    def write_everywhere() -> None:
        for topic in Topics(here.settings):
            to: list[str | bytes] = ["-P", "-b", server, "-t", topic.name, "-K:"]
            command = [str(KCAT), *to, "-H", b"\xff\xfe=1"]
            subprocess.run(command, input=label, check=True, timeout=30)

    for number in range(2):
        with instance(broker.url, here.settings.prefix, SBIC_PARTITIONS="1") as running:
            running.wait_ready()
            write_everywhere()
            await here.send([(f"t{number}", "w2", 1)])
            running.metrics_with('sbic_labels_total{outcome="counted"}', 2 - number)
            running.kill()
    for command in ("status", "export posteriors", "dead-letters show", "project recount"):
        ended = sbic(here.settings, *command.split())
        assert ended.returncode == 0, (command, ended.stderr)
