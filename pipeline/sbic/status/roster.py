"""What the roster says now of workers, and records that name those without a name."""

from collections.abc import Iterable, Mapping
from contextlib import suppress

from sbic.kafka.reader import reading
from sbic.project.settings import Settings
from sbic.project.topics import Topics
from sbic.wire.bad import BadRecord
from sbic.wire.partitions import Row, partition_of
from sbic.wire.workers import NOTHING_SAID, RosterEntry, encode_roster, parse_roster


async def said_of(
    settings: Settings, workers: Iterable[str], title: str | None = None
) -> dict[str, RosterEntry]:
    """Return what the roster says of these workers now, in records of their own partitions."""
    found = dict.fromkeys(workers, NOTHING_SAID)
    homes = {worker: partition_of(worker.encode(), settings.partitions) for worker in found}
    async with reading(settings, Topics(settings).roster.name, from_start=True) as reader:
        reader.read_only(homes.values())
        async for records in reader.to_the_end(title):
            for record in records:
                with suppress(BadRecord):  # a dead letter
                    worker, entry = parse_roster(record.key, record.value)
                    if homes.get(worker) == record.partition:
                        found[worker] = entry
    return found


async def naming(settings: Settings, names: Mapping[str, str]) -> list[Row]:
    """Make records of the roster that name these workers, those that have no name yet."""
    return [
        Row(worker.encode(), encode_roster(worker, entry._replace(name=names[worker])))
        for worker, entry in (await said_of(settings, names)).items()
        if entry.name is None
    ]
