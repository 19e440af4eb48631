"""Reads batches of records whatever the names of their headers are.

Kafka takes any bytes for the name of a header, and kcat or a client in C sends them. aiokafka 0.14
decodes names as UTF-8: at any other bytes it raises, at every start again, whoever wrote them. Such
bytes become question marks here; keys and values stay as they are.
"""

from collections.abc import Iterator
from itertools import islice
from struct import unpack_from
from typing import Any

from aiokafka.codec import gzip_decode
from aiokafka.consumer import fetcher
from aiokafka.record.memory_records import MemoryRecords
from aiokafka.record.util import decode_varint

LENGTH_AT, LENGTH_END = 8, 12  # of a batch: the bytes after its length
CODEC_AT, CODEC_MASK = 22, 0x07  # in the lower byte of its attributes
RECORDS_AT = 61


class AnyRecords:
    """The batches in what was fetched from a partition, as aiokafka's fetcher asks for them."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._records = MemoryRecords(data)
        self._taken = 0
        self.has_next = self._records.has_next
        self.size_in_bytes = self._records.size_in_bytes

    def next_batch(self) -> "AnyBatch":
        """Return the next batch."""
        self._taken += 1
        return AnyBatch(self._records.next_batch(), self._data, self._taken)


class AnyBatch:
    """One batch, the `number`th of the data, from 1; its records are iterated over once."""

    def __init__(self, batch: Any, data: bytes, number: int) -> None:
        self._batch = batch
        self._data = data
        self._number = number

    def __getattr__(self, name: str) -> Any:
        return getattr(self._batch, name)

    def __next__(self) -> Any:
        return next(self._batch)

    def __iter__(self) -> Iterator[Any]:
        try:
            return iter(list(self._batch))
        except UnicodeDecodeError:
            batch = next(islice(_batches(self._data), self._number - 1, None))
            return iter(list(MemoryRecords(bytes(_mended(batch))).next_batch()))


def _batches(data: bytes) -> Iterator[bytes]:
    start = 0
    while start < len(data):
        end = start + LENGTH_END + int(unpack_from(">i", data, start + LENGTH_AT)[0])
        yield data[start:end]
        start = end


def _mended(batch: bytes) -> bytearray:
    """Get the batch, not compressed, with question marks for bytes in names that are not UTF-8."""
    head, records = bytearray(batch[:RECORDS_AT]), bytearray(batch[RECORDS_AT:])
    if head[CODEC_AT] & CODEC_MASK:
        records = bytearray(gzip_decode(bytes(records)))  # no other was read that far
        head[CODEC_AT] &= ~CODEC_MASK
    at = 0
    while at < len(records):
        length, at = decode_varint(records, at)
        _mend(records, at)
        at += length
    head[LENGTH_AT:LENGTH_END] = (RECORDS_AT - LENGTH_END + len(records)).to_bytes(4, "big")
    return head + records


def _mend(records: bytearray, at: int) -> None:
    """Replace such bytes in the record that begins there, which keeps its length."""
    for _ in range(3):  # attributes, and what its time and offset add to those of the batch
        _, at = decode_varint(records, at)
    for _ in range(2):  # key and value
        size, at = decode_varint(records, at)
        at += max(0, size)
    count, at = decode_varint(records, at)
    for _ in range(count):
        size, at = decode_varint(records, at)
        name = bytes(records[at : at + size]).decode(errors="surrogateescape")
        records[at : at + size] = b"".join(
            b"?" if "\udc80" <= c <= "\udcff" else c.encode() for c in name
        )
        at += size
        size, at = decode_varint(records, at)
        at += max(0, size)


fetcher.MemoryRecords = AnyRecords
