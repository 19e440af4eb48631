"""The current state of a compacted topic, the last record of every key, as a table."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from pipeline.kafka.reading import reading
from pipeline.progress import progress
from pipeline.records.bad import BadRecord, Reason, parser, read_id, read_number, read_object
from pipeline.records.named_posteriors import parse_any_posterior
from pipeline.records.posteriors import MOST_LABELS
from pipeline.settings import Settings
from pipeline.topics import Topic, Topics

Row = list[object]
Record = Mapping[str, Any]
Records = Sequence[Record]


class Table(NamedTuple):
    """The columns, and a row for each record."""

    columns: tuple[str, ...]
    rows: list[Row]


class ByClass(NamedTuple):
    """A field with a value for each class: a column `word:CLASS` each."""

    word: str
    field: str


Column = str | ByClass


class Export(NamedTuple):
    """An export: the topic, how to parse its records, and the table of them."""

    topic: Callable[[Topics], Topic]
    read: Callable[[bytes], Record]
    table: Callable[[Records], Table]


def posteriors_table(posteriors: Records) -> Table:
    """Posteriors of the kind that most records have; sbic writes only one kind to a topic.

    >>> cat = {"task": "t1", "prediction": "cat", "confidence": 0.75, "labels": 1, "status": "open"}
    >>> table = posteriors_table([{**cat, "probabilities": {"cat": 0.75, "dog": 0.25}}])
    >>> table.columns[:7]
    ('task', 'prediction', 'confidence', 'p:cat', 'p:dog', 'labels', 'status')
    >>> table.rows[0][:7]
    ['t1', 'cat', 0.75, 0.75, 0.25, 1, 'open']
    """
    named = [posterior for posterior in posteriors if "probabilities" in posterior]
    if 2 * len(named) > len(posteriors):
        return _table(named, NAMED_COLUMNS)
    signs = [posterior for posterior in posteriors if "log_odds" in posterior]
    return _table(signs, SIGN_COLUMNS)


def workers_table(workers: Records) -> Table:
    """Workers, with `theta` and a column `habit:CLASS` for each class if they are known.

    >>> ann = {"worker": "ann", "accuracy": 0.75, "interval": [0.5, 0.9], "theta": 0.5}
    >>> table = workers_table([{**ann, "habits": {"cat": 0.3, "dog": 0.7}}])
    >>> table.columns[-4:]
    ('last_seen', 'theta', 'habit:cat', 'habit:dog')
    >>> table.rows[0][:4]
    ['ann', 0.75, 0.5, 0.9]
    """
    flat = [
        {**worker, "interval_low": worker["interval"][0], "interval_high": worker["interval"][1]}
        for worker in workers
    ]
    is_settled = any("theta" in worker for worker in workers)
    return _table(flat, SETTLED_WORKER_COLUMNS if is_settled else WORKER_COLUMNS)


def _table(records: Records, columns: Sequence[Column]) -> Table:
    names: list[str] = []
    paths: list[tuple[str, str | None]] = []  # the field, and the class in it
    for column in columns:
        if isinstance(column, str):
            names.append(column)
            paths.append((column, None))
            continue
        word, field = column
        classes = dict.fromkeys(name for record in records for name in record.get(field, ()))
        names += [f"{word}:{name}" for name in classes]
        paths += [(field, name) for name in classes]
    rows: list[Row] = [
        [
            record.get(field) if name is None else record.get(field, {}).get(name)
            for field, name in paths
        ]
        for record in records
    ]
    return Table(tuple(names), rows)


@parser
def read_worker(value: bytes) -> dict[str, Any]:
    """Parse a worker's record; raises `BadRecord`."""
    worker = read_object(value)
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


STATE_COLUMNS = ("labels", "status", "reason", "reopened", "gold")
LAST_COLUMNS = ("sources", "updated_at")
SIGN_COLUMNS = (
    *("task", "log_odds", "probability", "prediction"),
    *STATE_COLUMNS,
    *("evidence", "prior"),
    *LAST_COLUMNS,
)
NAMED_COLUMNS = (
    *("task", "prediction", "confidence", ByClass("p", "probabilities")),
    *STATE_COLUMNS,
    *(ByClass("evidence", "evidence"), ByClass("prior", "prior")),
    *LAST_COLUMNS,
)
WORKER_COLUMNS = (
    *("worker", "accuracy", "interval_low", "interval_high", "labels", "correct"),
    *("gold", "gold_right", "last_seen"),
)
SETTLED_WORKER_COLUMNS = (*WORKER_COLUMNS, "theta", ByClass("habit", "habits"))

# the types of columns that may be empty
KINDS: dict[str, type[bool] | type[int] | type[float]] = {
    **dict.fromkeys(("log_odds", "probability", "confidence", "p", "evidence", "prior"), float),
    **dict.fromkeys(("accuracy", "interval_low", "interval_high", "correct", "theta"), float),
    **dict.fromkeys(("labels", "updated_at", "gold_right", "last_seen"), int),
    **dict.fromkeys(("reopened", "gold"), bool),
    "habit": float,
}

EXPORTS = {
    "posteriors": Export(lambda topics: topics.posteriors, parse_any_posterior, posteriors_table),
    "workers": Export(lambda topics: topics.workers, read_worker, workers_table),
}


async def current_records(settings: Settings, export: Export) -> list[Record]:
    """The last record of every key in the topic now, sorted by key."""
    topic = export.topic(Topics(settings)).name
    last: dict[bytes, bytes] = {}
    async with reading(settings, topic, from_start=True) as reader:
        with progress("Reading", total=sum(reader.ends.values())) as advance:
            async for records in reader.to_the_end():
                for record in records:
                    if record.value is None:  # a tombstone
                        last.pop(record.key, None)
                    else:
                        last[record.key] = record.value
                advance(len(records))
    return list(readable(export.read, (last[key] for key in sorted(last))))


def readable(read: Callable[[bytes], Record], values: Iterable[bytes]) -> Iterable[Record]:
    """The records among the values; any others are not sbic records, and ignored.

    >>> worker = b'{"worker":"w1","accuracy":0.75,"interval":[0.2,0.9],"labels":1,"correct":1.0}'
    >>> [record["worker"] for record in readable(read_worker, [worker, b"[]"])]
    ['w1']
    """
    for value in values:
        try:
            yield read(value)
        except BadRecord:
            continue
