"""The current state of a compacted topic: the last record of every key, as rows of a table."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from pipeline.progress import progress
from pipeline.records.bad import BadRecord, Reason, read_id, read_number, read_object
from pipeline.records.named_posteriors import parse_any_posterior
from pipeline.settings import Settings
from pipeline.tools.reading import reading
from pipeline.topics import Topic, Topics

Row = list[object]
Records = Sequence[Mapping[str, Any]]


class Exported(NamedTuple):
    """The columns, and a row for each record."""

    columns: tuple[str, ...]
    rows: list[Row]


class Export(NamedTuple):
    """What can be exported: where it is, how it is read, and the table that its records become."""

    topic: Callable[[Topics], Topic]
    read: Callable[[bytes], Mapping[str, Any]]
    table: Callable[[Records], Exported]


def posteriors_table(posteriors: Records) -> Exported:
    """Posteriors of the kind that most are of; a topic has only one that is ours.

    >>> cat = {"task": "t1", "prediction": "cat", "confidence": 0.75, "labels": 1, "status": "open"}
    >>> table = posteriors_table([{**cat, "probabilities": {"cat": 0.75, "dog": 0.25}}])
    >>> table.columns[:-2]
    ('task', 'prediction', 'confidence', 'p:cat', 'p:dog', 'labels', 'status')
    >>> table.rows
    [['t1', 'cat', 0.75, 0.75, 0.25, 1, 'open', None, None]]
    """
    named = [posterior for posterior in posteriors if "probabilities" in posterior]
    if 2 * len(named) > len(posteriors):
        return _table(named, NAMED_COLUMNS, "p", "probabilities", STATE_COLUMNS)
    signs = [posterior for posterior in posteriors if "log_odds" in posterior]
    return _table(signs, (*SIGN_COLUMNS, *STATE_COLUMNS))


def workers_table(workers: Records) -> Exported:
    """Workers; with `theta` and a column `habit:CLASS` for each class where they are known.

    >>> ann = {"worker": "ann", "accuracy": 0.75, "theta": 0.5, "habits": {"cat": 0.3, "dog": 0.7}}
    >>> workers_table([ann]).columns[-4:]
    ('last_seen', 'theta', 'habit:cat', 'habit:dog')
    """
    if not any("theta" in worker for worker in workers):
        return _table(workers, WORKER_COLUMNS)
    return _table(workers, (*WORKER_COLUMNS, "theta"), "habit", "habits")


def _table(
    records: Records,
    first: tuple[str, ...],
    word: str = "",
    field: str = "",
    last: tuple[str, ...] = (),
) -> Exported:
    """The fields `first`, those of the object `field` as `word:NAME`, and the fields `last`."""
    names = list(dict.fromkeys(name for record in records for name in record.get(field, ())))
    rows = [
        [
            *map(record.get, first),
            *map(record.get(field, {}).get, names),
            *map(record.get, last),
        ]
        for record in records
    ]
    return Exported((*first, *(f"{word}:{name}" for name in names), *last), rows)


def read_worker(value: bytes) -> dict[str, Any]:
    """The worker in a record's value, or `BadRecord`."""
    worker = read_object(value)
    read_id(worker, "worker")
    read_number(worker, "accuracy", float)
    read_number(worker, "labels", int)
    read_number(worker, "correct", float)
    if "theta" in worker or "habits" in worker:
        read_number(worker, "theta", float)
        habits = worker.get("habits")
        if type(habits) is not dict or set(map(type, habits.values())) != {float}:
            raise BadRecord(Reason.BAD_FIELD, "'habits' must be an object of numbers")
    return worker


SIGN_COLUMNS = ("task", "log_odds", "probability", "prediction")
NAMED_COLUMNS = ("task", "prediction", "confidence")
STATE_COLUMNS = ("labels", "status", "reason", "updated_at")
WORKER_COLUMNS = ("worker", "accuracy", "labels", "correct", "gold", "gold_right", "last_seen")

EXPORTS = {
    "posteriors": Export(lambda topics: topics.posteriors, parse_any_posterior, posteriors_table),
    "workers": Export(lambda topics: topics.workers, read_worker, workers_table),
}


async def current_table(settings: Settings, export: Export) -> Exported:
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
    return export.table(list(readable(export.read, (last[key] for key in sorted(last)))))


def readable(
    read: Callable[[bytes], Mapping[str, Any]], values: Iterable[bytes]
) -> Iterable[Mapping[str, Any]]:
    """The records among the values; any others are not sbic records, and ignored.

    >>> worker = b'{"worker":"w1","accuracy":0.75,"labels":1,"correct":1.0}'
    >>> [record["worker"] for record in readable(read_worker, [worker, b"[]"])]
    ['w1']
    """
    for value in values:
        try:
            yield read(value)
        except BadRecord:
            continue
