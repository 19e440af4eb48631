"""Workers on the wire: the estimate of each, an output, and the roster, what their owner says.

A record of the roster is `{"worker": "ann", "blocked": true, "name": "Ann", "group": "night",
"tier": 2, "price": 0.5}`. Every field but `worker` is optional, and an absent field is as `null`:
the last record of a worker is all that is said of them. A record without a value (a tombstone)
withdraws it. Unknown fields are ignored.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, NotRequired, TypedDict

from orjson import dumps

from sbic.foreign import shown
from sbic.wire.bad import (
    ID_MAX_BYTES,
    BadRecord,
    Reason,
    Value,
    id_of_key,
    parser,
    read_id,
    read_number,
    read_object,
    read_shallow,
)
from sbic.wire.posteriors import MOST_LABELS


class AgreesWith(TypedDict):
    """Another worker with whom one has `tasks` in common whose labels differ.

    They agree on a share `agreement` of them; of those on which one of them is wrong, as far as is
    known, both give the same wrong answer on a share `errors_alike`. `shared` is the vote that they
    share: 1 if each has only half of it, 0 if they count as independent.
    """

    worker: str
    tasks: int
    agreement: float
    errors_alike: float
    shared: float


class Worker(TypedDict):
    """The estimate of one worker.

    `accuracy` is the probability that their next answer is right, and `interval` its central 95 %
    (of the Beta posterior). `labels` is the number of their labels that count, `correct` the
    expected number of right ones, `gold` the number on gold tasks, and `gold_right` the number of
    right ones among these. `last_seen` is the timestamp of their newest label or skip, in
    milliseconds.

    Present under settled only: a worker knows the answer with probability `theta` (negative if they
    are right less often than by chance), and otherwise answers each class with the frequency in
    `habits`, by the name of the class ("-1" and "1" for the default classes). With more labels
    `confusion` grows out of both: by true class, the probability of each answer.

    `gold_interval` is the 95 % interval of the accuracy on gold alone (Wilson), once there is any.
    `contradicted` is present if the accuracy on gold lies outside `interval` by more than chance:
    by more than three standard errors.

    `agrees_with` has the workers who share a vote, and whose errors go together most. `drifting` is
    since when the worker answers otherwise than before: a timestamp in milliseconds. `blocked`,
    `name`, `group`, `tier` and `price` are what the roster says of the worker.
    """

    worker: str
    accuracy: float
    interval: list[float]
    labels: int
    correct: float
    gold: int
    gold_right: int
    last_seen: int
    theta: NotRequired[float]
    habits: NotRequired[dict[str, float]]
    confusion: NotRequired[dict[str, dict[str, float]]]
    gold_interval: NotRequired[list[float]]
    contradicted: NotRequired[Literal[True]]
    agrees_with: NotRequired[list[AgreesWith]]
    drifting: NotRequired[int]
    blocked: NotRequired[bool]
    name: NotRequired[str]
    group: NotRequired[str]
    tier: NotRequired[int]
    price: NotRequired[float]


def encode_worker(worker: Worker) -> bytes:
    """Return the value of a worker's record.

    >>> counts = {"labels": 1, "correct": 1.0, "gold": 1, "gold_right": 1, "last_seen": 0}
    >>> encode_worker({"worker": "w1", "accuracy": 0.75, "interval": [0.29, 0.99], **counts})[:39]
    b'{"worker":"w1","accuracy":0.75,"interva'
    """
    return dumps(worker)


@parser
def read_worker(value: bytes) -> dict[str, Any]:
    """Parse a worker's record; raises `BadRecord`."""
    worker = read_shallow(value)
    read_id(worker, "worker")
    read_number(worker, "accuracy", float)
    if not 0 <= read_number(worker, "labels", int) <= MOST_LABELS:
        raise BadRecord(Reason.BAD_FIELD, "'labels' must be a number of labels")
    read_number(worker, "correct", float)
    interval = worker.get("interval")
    if type(interval) is not list or list(map(type, interval)) != [float, float]:
        raise BadRecord(Reason.BAD_FIELD, "'interval' must be two numbers")
    if "theta" in worker or "habits" in worker:
        read_number(worker, "theta", float)
        habits = worker.get("habits")
        if type(habits) is not dict or set(map(type, habits.values())) != {float}:
            raise BadRecord(Reason.BAD_FIELD, "'habits' must be an object of numbers")
    return worker


# The roster: who is blocked whatever the rule says, names, families, tiers and prices.


MAX_BYTES = 1 << 20  # of a value, as for labels
TIERS = range(1, 10)
MOST_PRICE = 1_000_000
UNITS = 1_000_000  # of money, in which costs are added up: sums of them are exact in any order


def units_of(money: float | None) -> int | None:
    """Convert an amount of money to units.

    >>> units_of(0.5), units_of(None)
    (500000, None)
    """
    return None if money is None else round(money * UNITS)


class RosterEntry(NamedTuple):
    """What the owner of a project says of a worker.

    `blocked`: whether they get assignments, whatever the rule says; None if the rule decides.
    `name`: what people see beside the id.
    `group`: the workers with the same one err together; they share a vote.
    `tier`: 1 is asked first; None is 1, too.
    `price`: of each label, in whatever money; None is 0.
    """

    blocked: bool | None = None
    name: str | None = None
    group: str | None = None
    tier: int | None = None
    price: float | None = None

    @property
    def units(self) -> int:
        """The price in units of money."""
        return units_of(self.price) or 0


NOTHING_SAID = RosterEntry()


@parser
def parse_roster(key: bytes | None, value: Value) -> tuple[str, RosterEntry]:
    """Return the worker and the entry in a record.

    >>> parse_roster(b"ann", b'{"worker": "ann", "blocked": true}')
    ('ann', RosterEntry(blocked=True, name=None, group=None, tier=None, price=None))
    >>> parse_roster(b"ann", None)[1] == NOTHING_SAID
    True
    """
    if value is None:
        return id_of_key(key), NOTHING_SAID
    record = read_object(value, MAX_BYTES)
    worker = read_id(record, "worker")
    return worker, RosterEntry(
        _read_blocked(record.get("blocked")),
        _read_words(record, "name"),
        _read_words(record, "group"),
        _read_tier(record.get("tier")),
        _read_price(record.get("price")),
    )


def _read_blocked(value: Any) -> bool | None:
    if value is None or type(value) is bool:
        return value
    problem = f"'blocked' must be true, false or null, not {shown(value)}"
    raise BadRecord(Reason.BAD_FIELD, problem)


def _read_words(record: Mapping[str, Any], field_name: str) -> str | None:
    value = record.get(field_name)
    if value is None or (type(value) is str and 0 < len(value.encode()) <= ID_MAX_BYTES):
        return value
    needs = f"a string of 1 to {ID_MAX_BYTES} bytes in UTF-8, or null"
    raise BadRecord(Reason.BAD_FIELD, f"'{field_name}' must be {needs}, not {shown(value)}")


def _read_tier(value: Any) -> int | None:
    if value is None:
        return None
    if type(value) in (int, float) and value in TIERS:
        return int(value)
    needs = f"a whole number from {TIERS[0]} (asked first) to {TIERS[-1]}, or null"
    raise BadRecord(Reason.BAD_FIELD, f"'tier' must be {needs}, not {shown(value)}")


def _read_price(value: Any) -> float | None:
    if value is None:
        return None
    if type(value) in (int, float) and (value == 0 or 1 / UNITS <= value <= MOST_PRICE):
        return float(value)
    needs = f"0, a number from 0.000001 to {MOST_PRICE}, or null"
    raise BadRecord(Reason.BAD_FIELD, f"'price' must be {needs}, not {shown(value)}")


def encode_roster(worker: str, entry: RosterEntry) -> bytes:
    """Return the value of a worker's record; what is None is left out.

    >>> encode_roster("ann", RosterEntry(blocked=False))
    b'{"worker":"ann","blocked":false}'
    """
    said = {name: value for name, value in entry._asdict().items() if value is not None}
    return dumps({"worker": worker, **said})


# The roster topic is compacted by worker, so that it is also what the next owner of a partition
# reads: an instance reads its partitions whole before it answers the first request, and follows
# them from there. A record counts in the partition of its worker only; in another one it is
# forwarded, and counts when it arrives.


@dataclass
class RosterPartition:
    """The entries of a partition, by worker, up to an offset."""

    entries: dict[str, RosterEntry] = field(default_factory=dict)
    upto: int = 0

    def apply(self, offset: int, worker: str, entry: RosterEntry) -> bool:
        """Apply a record; return whether it is new here."""
        if offset < self.upto:
            return False
        self.upto = offset + 1
        self.entries[worker] = entry  # also NOTHING_SAID: their record has to be published again
        return True


class Roster:
    """The entries of the workers of this instance.

    >>> roster = Roster()
    >>> roster.open(3)
    >>> blocked = RosterEntry(blocked=True)
    >>> roster.apply(3, 7, "ann", blocked), roster.apply(4, 7, "bob", blocked)
    (True, False)
    >>> roster.of(3, "ann").blocked, roster.of(3, "bob").blocked
    (True, None)
    """

    def __init__(self) -> None:
        self.partitions: dict[int, RosterPartition] = {}

    def open(self, partition: int) -> None:
        """Begin a partition without entries."""
        self.partitions[partition] = RosterPartition()

    def close(self, partition: int) -> None:
        """Forget a partition."""
        self.partitions.pop(partition, None)

    def restore(self, read: Mapping[int, RosterPartition]) -> None:
        """Replace partitions by what was read of them, all at once."""
        self.partitions.update(read)

    def apply(self, partition: int, offset: int, worker: str, entry: RosterEntry) -> bool:
        """Apply a record; return whether it is new here. In a partition of others it is not."""
        found = self.partitions.get(partition)
        return found is not None and found.apply(offset, worker, entry)

    def of(self, partition: int, worker: str) -> RosterEntry:
        """Return what is said of a worker of this partition."""
        found = self.partitions.get(partition)
        return NOTHING_SAID if found is None else found.entries.get(worker, NOTHING_SAID)
