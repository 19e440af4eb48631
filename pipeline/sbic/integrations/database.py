"""Tables of a project in PostgreSQL or SQLite: rows, and the offsets behind them, in one go.

What is written is always the last state of a task, worker or assignment, and the offsets up to
which records are in the tables change in the same transaction. So a process that is killed goes on
exactly where the tables are, and no record is in them twice.
"""

import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, ClassVar, Literal, NamedTuple

from orjson import dumps

from sbic.wire.bad import BadRecord, Reason, parser, read_id, read_object

VERSION = 1
"""Of the tables: others are refused, not altered."""

ColumnKind = Literal["text", "real", "whole", "flag", "time", "json"]
Values = tuple[Any, ...]


class BadTarget(Exception):
    """The database cannot be used as it is given; the message says what to change."""


class DatabaseTrouble(Exception):
    """The database does not do what is asked, now; the message is one line."""


class Column(NamedTuple):
    """A column: its name, what kind of values it has, and what they are."""

    name: str
    kind: ColumnKind
    note: str


@dataclass(frozen=True)
class Table:
    """A table with the last state of each key; `read` makes its values of a record.

    With `keeps` a value that is there stays where a later record of the same key has none.
    """

    name: str
    note: str
    columns: tuple[Column, ...]
    read: Callable[[bytes, int], Values]
    keeps: bool = False

    @property
    def key(self) -> str:
        """The name of the primary key, the first column."""
        return self.columns[0].name

    def row(self, value: bytes, published_at: int) -> Values:
        """Return the values of a record, each of its column's kind; raises `BadRecord`.

        What a driver does not expect is no error of data to it: one such record would come again
        and again.

        >>> POSTERIORS.row(b'{"task": "t1", "prediction": 1, "probability": 0.9, "labels": [], '
        ...     b'"status": "open", "updated_at": 0}', 0)
        Traceback (most recent call last):
        sbic.wire.bad.BadRecord: 'labels' cannot be in a column of whole numbers
        """
        found = self.read(value, published_at)
        for column, each in zip(self.columns, found, strict=True):
            if each is not None and not FITS[column.kind](each):
                problem = f"'{column.name}' cannot be in a column of {KIND_NAMES[column.kind]}"
                raise BadRecord(Reason.BAD_FIELD, problem)
        return found


FITS: Mapping[ColumnKind, Callable[[Any], bool]] = {
    "text": lambda value: type(value) is str,
    "real": lambda value: type(value) in (int, float),
    "whole": lambda value: type(value) is int and -(1 << 63) <= value < 1 << 63,
    "flag": lambda value: type(value) is bool,
    "time": lambda value: type(value) is str,
    "json": lambda value: type(value) is str,
}
KIND_NAMES: Mapping[ColumnKind, str] = {
    "text": "texts",
    "real": "numbers",
    "whole": "whole numbers",
    "flag": "true and false",
    "time": "times",
    "json": "JSON",
}


def instant(milliseconds: object) -> str | None:
    """Format a time for both databases; None if it is none, or beyond the year 9999.

    >>> instant(1700000000123), instant(1 << 60), instant(None)
    ('2023-11-14 22:13:20.123+00:00', None, None)
    """
    if type(milliseconds) is not int:
        return None
    with suppress(OverflowError):
        time = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=milliseconds)
        return time.isoformat(" ", "milliseconds")
    return None


@parser
def posterior_values(value: bytes, published_at: int) -> Values:
    """Return the row of a posterior, with signs or with names.

    >>> posterior_values(b'{"task": "t1", "prediction": -1, "probability": 0.25, "labels": 1, '
    ...     b'"log_odds": -1.1, "status": "open", "sources": {}, "updated_at": 0}', 0)[:5]
    ('t1', '-1', 0.75, '{"-1":0.75,"1":0.25}', 1)
    """
    record = read_object(value)
    shares = record.get("probabilities")
    if shares is None:
        probability = record["probability"]
        shares = {"-1": 1 - probability, "1": probability}
    prediction = record["prediction"] or None  # 0 and null are ties
    return (
        read_id(record, "task"),
        str(prediction) if type(prediction) is int else prediction,
        max(shares.values()),
        _json(shares),
        record["labels"],
        record.get("effective_votes"),
        record["status"],
        record.get("reason"),
        record.get("gold", False),
        instant(record["updated_at"]),
        _json(record),
    )


@parser
def worker_values(value: bytes, published_at: int) -> Values:
    """Return the row of a worker."""
    record = read_object(value)
    low, high = record["interval"]
    return (
        read_id(record, "worker"),
        record.get("name"),
        record["accuracy"],
        low,
        high,
        record["labels"],
        record["correct"],
        record["gold"],
        record["gold_right"],
        record.get("blocked"),
        instant(record.get("drifting")),
        instant(record["last_seen"]),
        _json(record),
    )


@parser
def assignment_values(value: bytes, published_at: int) -> Values:
    """Return the row of an assignment, of a refusal, or of the end of an assignment."""
    record = read_object(value)
    ended = record.get("ended")
    if ended not in (None, "answered", "skipped"):
        raise BadRecord(Reason.BAD_FIELD, "'ended' must be answered or skipped")
    return (
        read_id(record, "id"),
        read_id(record, "worker"),
        None if record["task"] is None else read_id(record, "task"),
        record.get("policy"),
        record.get("reason"),
        instant(record.get("issued_at")),
        instant(record.get("expires_at")),
        ended,
        instant(published_at) if ended else None,
    )


def _json(value: object) -> str:
    return dumps(value).decode()


POSTERIORS = Table(
    "posteriors",
    "What is known of each task.",
    (
        Column("task", "text", "the task"),
        Column("prediction", "text", "the most probable class; null before any label or in a tie"),
        Column("confidence", "real", "the largest of the probabilities"),
        Column("probabilities", "json", "the probability of each class"),
        Column("labels", "whole", "how many labels are counted"),
        Column("effective_votes", "real", "how many independent votes they are worth, if known"),
        Column("status", "text", "open or closed"),
        Column("reason", "text", "why it is closed"),
        Column("gold", "flag", "whether the truth is known"),
        Column("updated_at", "time", "the newest label counted, by its timestamp"),
        Column("record", "json", "the whole record, as it was published"),
    ),
    posterior_values,
)
WORKERS = Table(
    "workers",
    "What is known of each worker.",
    (
        Column("worker", "text", "the worker"),
        Column("name", "text", "their name, from the roster"),
        Column("accuracy", "real", "the probability that their next label is right"),
        Column("interval_low", "real", "the lower end of its 95 % interval"),
        Column("interval_high", "real", "the upper end"),
        Column("labels", "whole", "how many of their labels are counted"),
        Column("correct", "real", "how many of those are expected to be right"),
        Column("gold", "whole", "how many of those are on gold tasks"),
        Column("gold_right", "whole", "how many of the labels on gold tasks are right"),
        Column("blocked", "flag", "what the roster says; null if nothing"),
        Column("drifting", "time", "since when they answer otherwise than before; else null"),
        Column("last_seen", "time", "their newest label or skip, by its timestamp"),
        Column("record", "json", "the whole record, as it was published"),
    ),
    worker_values,
)
ASSIGNMENTS = Table(
    "assignments",
    "Which worker got which task, or why none, and how it ended.",
    (
        Column("id", "text", "the id of the assignment"),
        Column("worker", "text", "who asked"),
        Column("task", "text", "the task they got; null if none"),
        Column("policy", "text", "how it was chosen"),
        Column("reason", "text", "why there is no task"),
        Column("issued_at", "time", "when"),
        Column("expires_at", "time", "until when it is theirs"),
        Column("ended", "text", "answered or skipped; null while it is neither"),
        Column("ended_at", "time", "when it ended"),
    ),
    assignment_values,
    keeps=True,
)
TABLES = (POSTERIORS, WORKERS, ASSIGNMENTS)

TRUTH = """\
SELECT task, prediction AS truth, confidence, gold, labels,
       (status = 'closed') AS closed, updated_at
FROM {posteriors} WHERE prediction IS NOT NULL"""
"""The view for those who only want the answers: a row for each task that has one."""


def opened(target: str, prefix: str, schema: str | None = None, *, shown: bool) -> "Database":
    """Return the database of a target, not connected yet; raise `BadTarget`.

    `shown` is a target that others can see, for example in the list of processes: it must not have
    a password.

    >>> print(opened("sqlite:crowd.db", "sbic", shown=True))
    SQLite, crowd.db
    >>> print(opened("postgresql://ann:hunter2@db/crowds", "sbic", shown=False))
    PostgreSQL at db, database crowds, schema sbic
    """
    scheme, _, rest = target.partition(":")
    if scheme == "sqlite":
        path = rest.removeprefix("///")  # as SQLAlchemy writes it
        if not path or schema:
            problem = (
                "has no schemas" if schema else "needs the name of a file, say sqlite:crowd.db"
            )
            raise BadTarget(f"SQLite {problem}")
        return SQLite(path, prefix)
    if scheme in ("postgresql", "postgres"):
        return PostgreSQL(target, prefix, schema or prefix, shown=shown)
    raise BadTarget(f"a target is postgresql://HOST/DATABASE or sqlite:FILE, not {scheme}:…")


class AppliedOffsets(NamedTuple):
    """Of a partition: the next offset in the tables, the one before that, and the topic's end."""

    before: int
    next: int
    end: int


class Database:
    """The tables of one project.

    All methods block, and have to be called from one thread. They raise `DatabaseTrouble`.
    """

    kind: ClassVar[str]
    types: ClassVar[Mapping[ColumnKind, str]]
    begin = "BEGIN"
    errors: tuple[type[Exception], ...]
    bad_values: tuple[type[Exception], ...]

    def __init__(self, prefix: str, schema: str = "") -> None:
        self.prefix = prefix
        self._within = f'"{schema}".' if schema else ""
        self._connection: Any = None

    # What differs.

    def _connect(self) -> Any:
        raise NotImplementedError

    def _run(self, sql: str, values: Sequence[Any] = ()) -> Any:
        return self._connection.execute(sql, values)

    def _run_many(self, sql: str, rows: Sequence[Values]) -> None:
        self._connection.executemany(sql, rows)

    def _create_more(self) -> None:
        """Create what only this database has, before the tables."""

    def _describe(self, table: Table) -> None:
        """Keep what tables and columns are with them, where the database can."""

    # What all have in common.

    def open(self) -> None:
        """Connect, and create the tables unless they exist; raises `BadTarget` for other ones."""
        with self._translated():
            self._connection = self._connect()
        with self._transaction():
            self._create_more()
            self._create("sink", "prefix text PRIMARY KEY, version integer NOT NULL")
            self._check_owner()
            for table in TABLES:
                columns = (f"{name} {self.types[kind]}" for name, kind, _ in table.columns)
                if self._create(table.name, f"{', '.join(columns)}, PRIMARY KEY ({table.key})"):
                    self._describe(table)
            self._create(
                "sink_offsets",
                "topic text, partition integer, topic_id text NOT NULL, "
                "next_offset bigint NOT NULL, end_offset bigint NOT NULL, "
                "PRIMARY KEY (topic, partition)",
            )
            if not self._has("truth"):
                select = TRUTH.format(posteriors=f"{self._within}posteriors")
                self._run(f"CREATE VIEW {self._within}truth AS {select}")

    def _create(self, name: str, columns: str) -> bool:
        """Create a table; False if it exists."""
        if self._has(name):
            return False
        self._run(f"CREATE TABLE {self._within}{name} ({columns})")
        return True

    def _has(self, name: str) -> bool:
        raise NotImplementedError

    def _check_owner(self) -> None:
        found = self._run(f"SELECT prefix, version FROM {self._within}sink").fetchall()
        if not found:
            self._run(f"INSERT INTO {self._within}sink VALUES (?, ?)", (self.prefix, VERSION))
            return
        (prefix, version) = found[0]
        if prefix != self.prefix:
            raise BadTarget(f"{self} has the tables of the project {prefix}, not of {self.prefix}")
        if version != VERSION:
            raise BadTarget(f"{self} has tables of another version of sbic: drop them first")

    def close(self) -> None:
        """Disconnect."""
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(*self.errors):
                connection.close()

    def resume(
        self, topic: str, topic_id: str, extents: Sequence[tuple[int, int]], clears: Table | None
    ) -> list[int]:
        """Return the next offset of each partition; `extents` are the first and the end offsets.

        Offsets of a topic that was recreated mean nothing: its table is cleared, and it is read
        from its start, as it is where Kafka has lost what had been read.
        """
        with self._transaction():
            known = self._run(
                f"SELECT partition, topic_id, next_offset FROM {self._within}sink_offsets "
                "WHERE topic = ?",
                (topic,),
            ).fetchall()
            if any(known_id != topic_id for _, known_id, _ in known):
                self._run(f"DELETE FROM {self._within}sink_offsets WHERE topic = ?", (topic,))
                if clears is not None:
                    self._run(f"DELETE FROM {self._within}{clears.name}")
                known = []
            offsets = {partition: offset for partition, _, offset in known}
            for partition, (first, end) in enumerate(extents):
                at = offsets.get(partition, 0)
                at = first if at > end else max(at, first)
                if partition not in offsets:
                    self._run(
                        f"INSERT INTO {self._within}sink_offsets VALUES (?, ?, ?, ?, ?)",
                        (topic, partition, topic_id, at, end),
                    )
                elif at != offsets[partition]:
                    self._move(
                        topic, topic_id, partition, AppliedOffsets(offsets[partition], at, end)
                    )
                offsets[partition] = at
            return [offsets[partition] for partition in range(len(extents))]

    def write(
        self,
        table: Table,
        topic_id: str,
        rows: Sequence[Values],
        deleted: Iterable[str],
        moved: Mapping[int, AppliedOffsets],
    ) -> int:
        """Write rows and delete keys, together with the offsets; returns how many were refused.

        Raises `DatabaseTrouble` if the offsets are not those that this process has written.
        """
        with self._transaction():
            for partition, progress in moved.items():
                self._move(table.name, topic_id, partition, progress)
            delete = f"DELETE FROM {self._within}{table.name} WHERE {table.key} = ?"
            self._run_each(delete, [(key,) for key in deleted])  # one it cannot hold is not there
            return self._upsert(table, rows)

    def _move(self, topic: str, topic_id: str, partition: int, progress: AppliedOffsets) -> None:
        changed = self._run(
            f"UPDATE {self._within}sink_offsets SET next_offset = ?, end_offset = ? "
            "WHERE topic = ? AND partition = ? AND topic_id = ? AND next_offset = ?",
            (progress.next, progress.end, topic, partition, topic_id, progress.before),
        ).rowcount
        if changed != 1:
            raise DatabaseTrouble(f"{self} is written by another sink, too: stop one of them")

    def _upsert(self, table: Table, rows: Sequence[Values]) -> int:
        names = [column.name for column in table.columns]
        kept = f"coalesce(excluded.{{0}}, {table.name}.{{0}})" if table.keeps else "excluded.{0}"
        changes = ", ".join(f"{name} = {kept.format(name)}" for name in names[1:])
        sql = (
            f"INSERT INTO {self._within}{table.name} ({', '.join(names)}) "
            f"VALUES ({', '.join('?' * len(names))}) "
            f"ON CONFLICT ({table.key}) DO UPDATE SET {changes}"
        )
        return self._run_each(sql, rows)

    def _run_each(self, sql: str, rows: Sequence[Values]) -> int:
        """Run a statement with each of these; returns how many the database cannot hold."""
        if not rows:
            return 0
        try:
            with self._savepoint():
                self._run_many(sql, rows)
            return 0
        except self.bad_values:
            pass  # a value that the database cannot hold: only its record is left out
        refused = 0
        for row in rows:
            try:
                with self._savepoint():
                    self._run(sql, row)
            except self.bad_values:
                refused += 1
        return refused

    @contextmanager
    def _savepoint(self) -> Iterator[None]:
        self._run("SAVEPOINT rows")
        try:
            yield
        except self.bad_values:
            self._run("ROLLBACK TO SAVEPOINT rows")
            raise
        finally:
            with suppress(*self.errors):
                self._run("RELEASE SAVEPOINT rows")

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        with self._translated():
            self._run(self.begin)
            try:
                yield
                self._run("COMMIT")
            except BaseException:
                with suppress(*self.errors):
                    self._run("ROLLBACK")
                raise

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except self.errors as error:
            said = " ".join(str(error).split()) or type(error).__name__
            raise DatabaseTrouble(f"{self}: {said}") from None


class SQLite(Database):
    """A file of SQLite; others can read it meanwhile."""

    kind = "sqlite"
    types: ClassVar[Mapping[ColumnKind, str]] = {
        "text": "text",
        "real": "real",
        "whole": "integer",
        "flag": "boolean",
        "time": "text",
        "json": "text",
    }
    begin = "BEGIN IMMEDIATE"  # so that two sinks wait for each other
    errors = (sqlite3.Error,)
    bad_values = (sqlite3.DataError, OverflowError)

    def __init__(self, path: str, prefix: str) -> None:
        super().__init__(prefix)
        self._path = path

    def __str__(self) -> str:
        return f"SQLite, {self._path}"

    def _connect(self) -> sqlite3.Connection:
        connection = sqlite3.connect(self._path, timeout=30, isolation_level=None)
        connection.execute("PRAGMA journal_mode = WAL")  # readers do not wait
        connection.execute("PRAGMA synchronous = FULL")  # what is committed survives a power cut
        return connection

    def _has(self, name: str) -> bool:
        sql = "SELECT 1 FROM sqlite_master WHERE name = ?"
        return self._run(sql, (name,)).fetchone() is not None


class PostgreSQL(Database):
    """A schema of a database of PostgreSQL, by psycopg."""

    kind = "postgresql"
    types: ClassVar[Mapping[ColumnKind, str]] = {
        "text": "text",
        "real": "double precision",
        "whole": "bigint",
        "flag": "boolean",
        "time": "timestamptz",
        "json": "jsonb",
    }

    def __init__(self, url: str, prefix: str, schema: str, *, shown: bool) -> None:
        try:
            import psycopg
            from psycopg.conninfo import conninfo_to_dict
        except ImportError:
            raise BadTarget("PostgreSQL needs an extra: run pip install 'sbic[postgres]'") from None
        if '"' in schema:
            raise BadTarget("the name of a schema must not have quotation marks")
        super().__init__(prefix, schema)
        try:
            parts = conninfo_to_dict(url)
        except psycopg.Error:  # its message repeats the URL, with the password
            raise BadTarget(
                "the URL is not postgresql://USER@HOST:PORT/DATABASE, or has unknown parameters"
            ) from None
        if shown and ("password" in parts or "sslpassword" in parts):
            raise BadTarget(
                "everybody on this machine can see a password on a command line: leave it out, and "
                "set PGPASSWORD or use ~/.pgpass, or set SBIC_SINK to the whole URL"
            )
        self._url = url
        self._schema = schema
        self._place = f"{parts.get('host') or 'this machine'}, database {parts.get('dbname', '')}"
        self.errors = (psycopg.Error,)
        self.bad_values = (psycopg.DataError,)

    def __str__(self) -> str:
        return f"PostgreSQL at {self._place}, schema {self._schema}"

    def _connect(self) -> Any:
        import psycopg

        return psycopg.connect(
            self._url,
            autocommit=True,  # transactions begin and end here, as with SQLite
            connect_timeout=10,
            keepalives_idle=30,  # seconds, until a server that is away is noticed
            tcp_user_timeout=60_000,
            fallback_application_name="sbic sink",
        )

    def _run(self, sql: str, values: Sequence[Any] = ()) -> Any:
        return self._connection.execute(sql.replace("?", "%s"), values or None)

    def _run_many(self, sql: str, rows: Sequence[Values]) -> None:
        with self._connection.cursor() as cursor:
            cursor.executemany(sql.replace("?", "%s"), rows)

    def _create_more(self) -> None:
        sql = "SELECT 1 FROM information_schema.schemata WHERE schema_name = ?"
        if self._run(sql, (self._schema,)).fetchone() is None:
            self._run(f'CREATE SCHEMA "{self._schema}"')

    def _describe(self, table: Table) -> None:
        from psycopg.sql import Literal as Quoted

        name = f"{self._within}{table.name}"
        notes = [(f"TABLE {name}", table.note)]
        notes += [(f"COLUMN {name}.{column.name}", column.note) for column in table.columns]
        for what, note in notes:
            self._run(f"COMMENT ON {what} IS {Quoted(note).as_string()}")

    def _has(self, name: str) -> bool:
        sql = "SELECT 1 FROM information_schema.tables WHERE table_schema = ? AND table_name = ?"
        return self._run(sql, (self._schema, name)).fetchone() is not None
