"""The seal: a header by which instances recognise the records that an instance has written.

Instances read back what instances write: answers, votes, evidence, estimates, assignments, and the
labels, tasks and requests that were forwarded to another partition. On many clusters anybody can
write to these topics. So each of these records has a keyed hash of its topic, partition, value, and
format or origin. Without a valid one it is a dead letter, or, if it claims to be forwarded, a
record like any other. A sealed record of a former owner is genuine: epochs and offsets fence those.
"""

from collections.abc import Iterable, Sequence
from hashlib import blake2b
from hmac import compare_digest
from typing import Protocol, TypeVar

from sbic.wire.bad import BadRecord, Reason
from sbic.wire.dead_letters import ORIGIN_HEADER, Header, Origin, origin_header, read_origin

SEAL_HEADER = "sbic.seal"
KEY_BYTES = 32
SEAL_BYTES = 16
ID_BYTES = 8

NOT_SEALED = BadRecord(Reason.NOT_OURS, "not an sbic record: it has no valid seal")


class Sealed(Protocol):
    """The attributes of a consumed record that a seal is about."""

    @property
    def topic(self) -> str:
        """The topic that it was read from."""

    @property
    def partition(self) -> int:
        """The partition that it was read from."""

    @property
    def value(self) -> bytes | None:
        """Its value."""

    @property
    def headers(self) -> Sequence[Header]:
        """Its headers, with the seal."""


S = TypeVar("S", bound=Sealed)


class Seal:
    """Seals records with the key of a project, and recognises sealed ones.

    >>> from types import SimpleNamespace
    >>> seal = Seal(bytes(KEY_BYTES))
    >>> record = SimpleNamespace(topic="sbic.votes", partition=3, value=b"a value")
    >>> record.headers = [seal.header("sbic.votes", 3, b"a value")]
    >>> seal.is_on(record), Seal(b"another key").is_on(record)
    (True, False)
    >>> record.partition = 4
    >>> seal.is_on(record)
    False
    """

    def __init__(self, key: bytes, former: Iterable[bytes] = ()) -> None:
        self.key = key
        self.keys = (key, *(other for other in former if other != key))

    def header(
        self, topic: str, partition: int, value: bytes | None, context: bytes = b""
    ) -> Header:
        """Return the header for a record; `context` says more about it, for example its format."""
        return SEAL_HEADER, _hash(self.key, topic, partition, value, context)

    def is_on(self, record: Sealed, context: bytes = b"") -> bool:
        """Whether an instance of this project has written the record, with the key of now."""
        found = next((value for name, value in record.headers if name == SEAL_HEADER), None)
        place = record.topic, record.partition, record.value
        return found is not None and compare_digest(found, _hash(self.key, *place, context))

    def sort(self, records: Sequence[S], context: bytes = b"") -> tuple[list[S], list[S]]:
        """Return the records that are sealed, and those that are not."""
        genuine: list[S] = []
        forged: list[S] = []
        for record in records:
            (genuine if self.is_on(record, context) else forged).append(record)
        return genuine, forged

    def origin_header(
        self, topic: str, partition: int, value: bytes | None, origin: Origin
    ) -> Header:
        """Return the header of a record that is forwarded to this partition: its origin, sealed.

        >>> place = "sbic.labels", 3, b"a value"
        >>> Seal(bytes(KEY_BYTES)).origin_header(*place, Origin("sbic.labels", 0, 42))[1][:17]
        b'sbic.labels/0/42/'
        """
        text = str(origin).encode()
        return ORIGIN_HEADER, b"%s/%s" % (text, _hex(self.key, topic, partition, value, text))

    def origin(self, record: Sealed, partitions: int) -> Origin | None:
        """Return the origin of a record that an instance has forwarded, also with a former key.

        Labels are kept when the key changes.
        """
        if not record.headers:
            return None
        text, _, seal = (origin_header(record.headers) or b"").rpartition(b"/")
        place = record.topic, record.partition, record.value
        if not any(compare_digest(seal, _hex(key, *place, text)) for key in self.keys):
            return None
        return read_origin(text, record.topic, partitions)


def read_key(value: bytes | None) -> bytes | None:
    """Return the key in a record of the seal topic; None if it is none, whoever wrote it.

    >>> read_key(b"00" * KEY_BYTES) == bytes(KEY_BYTES), read_key(b"00"), read_key(b"")
    (True, None, None)
    """
    try:
        key = bytes.fromhex((value or b"").decode())
    except ValueError:
        return None
    # an empty key is one that everybody knows, and blake2b raises at one of more than 64 bytes
    return key if len(key) == KEY_BYTES else None


def key_id(key: bytes) -> str:
    """Return the name of a key, which says nothing about it.

    >>> key_id(bytes(32))
    '2cf77e5f68bddfd5'
    """
    return blake2b(key, digest_size=ID_BYTES, person=b"sbic key").hexdigest()


def _hash(key: bytes, topic: str, partition: int, value: bytes | None, context: bytes) -> bytes:
    # no field can be taken for the next: a topic has no slash, a partition is digits, and the
    # context has its length before it
    place = b"%s/%d/%d/%s" % (topic.encode(), partition, len(context), context)
    seal = blake2b(place, key=key, digest_size=SEAL_BYTES, person=b"sbic seal")
    seal.update(value or b"")
    return seal.digest()


def _hex(key: bytes, topic: str, partition: int, value: bytes | None, context: bytes) -> bytes:
    return _hash(key, topic, partition, value, context).hex().encode()
