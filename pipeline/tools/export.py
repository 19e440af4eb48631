"""The current state of a compacted topic: the last record of every key, as rows of a table."""

from collections.abc import Callable
from typing import Any, NamedTuple

from pipeline.progress import progress
from pipeline.records.bad import BadRecord, read_id, read_number, read_object
from pipeline.records.posteriors import parse_posterior
from pipeline.settings import Settings
from pipeline.tools.reading import reading
from pipeline.topics import Topic, Topics

Row = list[object]


class Export(NamedTuple):
    """What can be exported: where it is, and the columns that its records become."""

    topic: Callable[[Topics], Topic]
    columns: tuple[str, ...]
    read: Callable[[bytes], Any]


def _read_worker(value: bytes) -> dict[str, Any]:
    worker = read_object(value)
    read_id(worker, "worker")
    read_number(worker, "accuracy", float)
    read_number(worker, "labels", int)
    read_number(worker, "correct", float)
    return worker


EXPORTS = {
    "posteriors": Export(
        lambda topics: topics.posteriors,
        (
            "task",
            "log_odds",
            "probability",
            "prediction",
            "labels",
            "status",
            "reason",
            "updated_at",
        ),
        parse_posterior,
    ),
    "workers": Export(
        lambda topics: topics.workers,
        ("worker", "accuracy", "labels", "correct", "gold", "gold_right", "last_seen"),
        _read_worker,
    ),
}


async def current_rows(settings: Settings, export: Export) -> list[Row]:
    """A row for every key that the topic has now, in the order of the keys."""
    topic = export.topic(Topics(settings)).name
    last: dict[bytes, bytes] = {}
    async with reading(settings, topic, from_start=True) as reader:
        with progress("Reading", total=sum(reader.ends.values())) as advance:
            async for records in reader.to_the_end():
                for record in records:
                    if record.value is None:  # taken away
                        last.pop(record.key, None)
                    else:
                        last[record.key] = record.value
                advance(len(records))
    return [row for key in sorted(last) if (row := row_of(export, last[key]))]


def row_of(export: Export, value: bytes) -> Row | None:
    """The columns of a record, empty where it has no such field; no row if it is not one of ours.

    >>> row_of(EXPORTS["workers"], b'{"worker":"w1","accuracy":0.75,"labels":1,"correct":1.0}')
    ['w1', 0.75, 1, 1.0, None, None, None]
    >>> row_of(EXPORTS["workers"], b"[]")
    """
    try:
        record = export.read(value)
    except BadRecord:
        return None
    return [record.get(column) for column in export.columns]
