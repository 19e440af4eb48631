"""`sbic sink`: tables of PostgreSQL and SQLite have what the topics have, every record once."""

import asyncio
import re
import sqlite3
import sys
from pathlib import Path
from time import monotonic
from urllib.request import urlopen

import pytest
from click.testing import CliRunner
from orjson import dumps, loads

from sbic.commands.main import sbic as command
from sbic.integrations.database import (
    ASSIGNMENTS,
    POSTERIORS,
    TABLES,
    AppliedOffsets,
    DatabaseTrouble,
    opened,
)
from sbic.local.broker import EmbeddedBroker
from sbic.local.java import free_port
from sbic.project.settings import Settings
from sbic.project.topics import Topics
from sbic.status.reading import StatusReader, reading_status
from sbic.status.report import ShownSink
from sbic.wire.assignments import AssignmentId, Refusal, encode_end, encode_lease, encode_refusal
from tests.docs.documents import document
from tests.instances import instance
from tests.projects import environment, sbic, write
from tests.records.made import encode_posterior, named_posterior_of, posterior_of
from tests.sink.conftest import Target, fill, in_sqlite, sink
from tests.sink.postgres import PASSWORD, Server

Record = tuple[bytes | None, bytes | None]
AT = 1_700_000_000_000  # 2023-11-14 22:13:20 UTC


def posterior(task: str, log_odds: float, labels: int = 1) -> Record:
    return task.encode(), encode_posterior(posterior_of(task, log_odds, labels, {"0": labels}, AT))


def worker(who: str, accuracy: float, **more: object) -> Record:
    record: dict[str, object] = {
        "worker": who,
        "accuracy": accuracy,
        "interval": [0.25, 0.75],
        "labels": 3,
        "correct": 1.5,
        "gold": 0,
        "gold_right": 0,
        "last_seen": AT,
        **more,
    }
    return who.encode(), dumps(record)


def lease(worker: str, task: str, number: int) -> Record:
    place = AssignmentId(0, number, 0)
    return worker.encode(), encode_lease(worker, task, place, "uniform", AT, AT + 1000)


async def test_tables_have_the_last_record_of_each_task_and_worker(
    project: Settings, target: Target
) -> None:
    topics = Topics(project)
    records = [
        posterior("t1", 3.0),
        posterior("gone", 1.0),
        posterior("t1", -1.0, 2),
        posterior("tie", 0.0),
        (b"gone", None),
        (b"other", b"not ours"),
    ]
    await write(project, topics.posteriors.name, records)
    await write(
        project, topics.workers.name, [worker("ann", 0.5), worker("ann", 0.625, name="Ann")]
    )
    fill(project, target)
    select = "SELECT task, prediction, round(confidence * 1000), labels, status FROM @posteriors"
    assert target.rows(f"{select} ORDER BY task") == [
        ("t1", "-1", 731, 2, "open"),
        ("tie", None, 500, 1, "open"),
    ]
    assert target.rows("SELECT task, truth, labels FROM @truth") == [("t1", "-1", 2)]
    select = "SELECT worker, name, accuracy, interval_low, labels, blocked FROM @workers"
    assert target.rows(select) == [("ann", "Ann", 0.625, 0.25, 3, None)]
    assert target.rows("SELECT sum(end_offset - next_offset) FROM @sink_offsets") == [(0,)]
    ((seen,),) = target.rows("SELECT last_seen FROM @workers")
    assert str(seen) == "2023-11-14 22:13:20.000+00:00" or seen.timestamp() * 1000 == AT


async def test_an_assignment_keeps_when_it_was_given_and_says_how_it_ended(
    project: Settings, target: Target
) -> None:
    topic = Topics(project).assignments.name
    given, refused = AssignmentId(0, 1, 0), AssignmentId(0, 2, 0)
    ended = b"ann", encode_end("ann", "t1", given, "answered")
    refusal = b"bob", encode_refusal("bob", Refusal.ALL_ANSWERED, refused, AT)
    await write(project, topic, [lease("ann", "t1", 1), refusal, ended])
    fill(project, target)
    await write(project, topic, [lease("ann", "t1", 1)])  # a repetition, by a successor
    fill(project, target)
    select = "SELECT id, worker, task, policy, reason, ended FROM @assignments ORDER BY id"
    assert target.rows(select) == [
        ("0-1-0", "ann", "t1", "uniform", None, "answered"),
        ("0-2-0", "bob", None, None, "all-answered", None),
    ]
    assert target.rows("SELECT count(issued_at), count(ended_at) FROM @assignments") == [(2, 1)]


async def test_classes_with_names_have_their_probabilities(pets: Settings, tmp_path: Path) -> None:
    target = in_sqlite(tmp_path / "pets.db")
    record = named_posterior_of(pets.crowd_classes, "t1", [0.625, 0.25, 0.125], 1, {"0": 0}, AT)
    await write(pets, Topics(pets).posteriors.name, [(b"t1", dumps(record))])
    fill(pets, target)
    share = "json_extract(probabilities, '$.dog')"
    select = f"SELECT prediction, confidence, {share} FROM posteriors"
    assert target.rows(select) == [("cat", 0.625, 0.25)]


ODD: list[object] = [[], {}, {"a": [1]}, True, "x", "nul\0", 1 << 63, -1.5, None, [[[1]]]]
"""Values of kinds that a field should not have; a database takes some of them."""


def with_odd_values(record: Record) -> list[Record]:
    """The record, with each field in turn replaced by odd values; the key stays as it is."""
    key, value = record
    fields = loads(value or b"{}")
    others = [name for name, found in fields.items() if str(found).encode() != key]
    return [(key, dumps({**fields, name: odd})) for name in others for odd in ODD]


async def test_a_record_that_the_database_cannot_hold_costs_only_itself(
    project: Settings, target: Target
) -> None:
    """That is, those of its key: here others than the ones that are looked for."""
    topics = Topics(project)
    broken = [
        worker("nul\0", 0.5),
        worker("huge", 0.5, labels=1 << 63),
        (b"short", b'{"worker": "short"}'),
        (b"deep", b"[" * 5000),
        (b"nul\0", None),  # what is deleted, too
        *with_odd_values(worker("odd", 0.5, name="Odd", blocked=False, drifting=AT)),
    ]
    await write(project, topics.workers.name, [worker("ann", 0.5), *broken, worker("bob", 0.5)])
    odd = with_odd_values(posterior("odd", 1.0))
    await write(project, topics.posteriors.name, [posterior("t1", 1.0), *odd, posterior("t2", 1.0)])
    odd = with_odd_values(lease("odd", "t3", 1))
    leases = lease("ann", "t1", 7), lease("bob", "t2", 8)
    await write(project, topics.assignments.name, [leases[0], *odd, leases[1]])
    fill(project, target)
    names = {name for (name,) in target.rows("SELECT worker FROM @workers")}
    assert names - {"odd"} == {"ann", "bob"}
    tasks = {task for (task,) in target.rows("SELECT task FROM @posteriors")}
    assert tasks - {"odd"} == {"t1", "t2"}
    given = target.rows("SELECT worker, task FROM @assignments WHERE worker IN ('ann', 'bob')")
    assert sorted(given) == [("ann", "t1"), ("bob", "t2")]
    assert target.rows("SELECT sum(end_offset - next_offset) FROM @sink_offsets") == [(0,)]


COUNTED = {
    "sqlite": (
        "CREATE TABLE written (id text)",
        "CREATE TRIGGER once AFTER INSERT ON assignments BEGIN "
        "INSERT INTO written VALUES (new.id); END",
        "CREATE TRIGGER twice AFTER UPDATE ON assignments BEGIN "
        "INSERT INTO written VALUES (new.id); END",
    ),
    "postgresql": (
        "CREATE TABLE @written (id text)",
        "CREATE FUNCTION @count_it() RETURNS trigger LANGUAGE plpgsql AS "
        "'BEGIN INSERT INTO @written VALUES (new.id); RETURN NULL; END'",
        "CREATE TRIGGER once AFTER INSERT OR UPDATE ON @assignments "
        "FOR EACH ROW EXECUTE FUNCTION @count_it()",
    ),
}


async def test_a_sink_that_is_killed_writes_every_record_once(
    project: Settings, target: Target, tmp_path: Path
) -> None:
    fill(project, target)
    for statement in COUNTED[target.url.partition(":")[0]]:
        target.rows(statement)
    topic = Topics(project).assignments.name
    counted = "SELECT count(*), count(DISTINCT id) FROM @written"
    written = 0
    for turn in range(3):
        numbers = range(turn * 2000, turn * 2000 + 2000)
        sending = asyncio.create_task(
            write(project, topic, [lease(f"w{n % 50}", f"t{n}", n) for n in numbers])
        )
        with sink(project, target, tmp_path) as running:
            least = written + 200
            await asyncio.to_thread(running.until, lambda: target.rows(counted)[0][0] > least)  # noqa: B023
            running.kill()
        await sending
        ((written, _),) = target.rows(counted)
        assert written < 6000 or turn == 2  # it was killed at work
    with sink(project, target, tmp_path) as running:
        await asyncio.to_thread(running.until, lambda: "writing the project" in running.log())
        await asyncio.to_thread(running.until, lambda: target.rows(counted)[0][0] >= 6000)
        assert running.terminate() == 0
    assert target.rows(counted) == [(6000, 6000)]
    assert target.rows("SELECT count(*) FROM @assignments") == [(6000,)]


def of_projects(project: Settings, *arguments: str) -> None:
    done = sbic(project, "project", *arguments)
    assert done.returncode == 0, done.stderr


async def test_after_a_recount_nothing_stays_that_is_no_longer_true(
    project: Settings, target: Target, tmp_path: Path
) -> None:
    topics = Topics(project)
    tasks = "SELECT task FROM @posteriors ORDER BY task"
    await write(project, topics.posteriors.name, [posterior(f"t{n}", 1.0) for n in range(50)])
    await write(project, topics.assignments.name, [lease("ann", "t1", 1)])
    fill(project, target)
    with sink(project, target, tmp_path) as running:
        await asyncio.to_thread(running.until, lambda: "writing the project" in running.log())
        assert len(target.rows(tasks)) == 50
        await asyncio.to_thread(of_projects, project, "recount")
        # its offsets are below those that were read
        await write(project, topics.posteriors.name, [posterior("new", 1.0)])
        await asyncio.to_thread(running.until, lambda: target.rows(tasks) == [("new",)])
        await asyncio.to_thread(of_projects, project, "recount", "--new-key")
        await asyncio.to_thread(running.until, lambda: target.rows(tasks) == [])
        kept = target.rows("SELECT id FROM @assignments")
        assert kept == [("0-1-0",)]  # known, though the topic was recreated
        assert running.terminate() == 0
    await write(project, topics.posteriors.name, [posterior("last", 1.0)])
    await asyncio.to_thread(of_projects, project, "reset", "--yes")
    fill(project, target)
    assert target.rows(tasks) == []
    assert target.rows("SELECT id FROM @assignments") == []  # ids begin again


async def test_a_database_that_is_away_comes_back(
    project: Settings, server: Server, tmp_path: Path
) -> None:
    target = Target(server.url, server.rows, project.prefix)
    topic = Topics(project).posteriors.name
    with sink(project, target, tmp_path) as running:
        for task in ("t1", "t2"):
            await write(project, topic, [posterior(task, 1.0)])
            one = f"SELECT 1 FROM @posteriors WHERE task = '{task}'"
            await asyncio.to_thread(running.until, lambda: known(target, one))  # noqa: B023
            server.rows(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                "WHERE application_name = 'sbic sink'"
            )
        assert "terminating connection" in running.log()
        assert PASSWORD not in running.log()


def known(target: Target, sql: str) -> bool:
    """Whether a query finds a row; before the first run there are no tables."""
    exists = f"SELECT 1 FROM information_schema.tables WHERE table_schema = '{target.schema}' "
    return bool(target.rows(f"{exists} AND table_name = 'sink_offsets'") and target.rows(sql))


async def test_lag_is_a_metric(project: Settings, tmp_path: Path) -> None:
    target = in_sqlite(tmp_path / "crowd.db")
    topic, port = Topics(project).posteriors.name, free_port()
    await write(project, topic, [posterior(f"t{n}", 1.0) for n in range(5)])
    fill(project, target)
    holding = sqlite3.connect(tmp_path / "crowd.db", isolation_level=None)
    with sink(project, target, tmp_path, "--metrics-port", str(port)) as running:
        has = "sbic_sink_connected 1.0"
        await asyncio.to_thread(running.until, lambda: has in metrics(port))
        holding.execute("BEGIN IMMEDIATE")  # the database is busy
        await write(project, topic, [posterior(f"t{n}", 2.0) for n in range(3)])
        lag = 'sbic_sink_lag_records{topic="posteriors"}'
        await asyncio.to_thread(running.until, lambda: f"{lag} 3.0" in metrics(port))
        holding.execute("ROLLBACK")
        await asyncio.to_thread(running.until, lambda: f"{lag} 0.0" in metrics(port))
        assert 'sbic_sink_records_total{topic="posteriors"} 3.0' in metrics(port)
    holding.close()


async def test_status_shows_the_lag_of_a_sink_that_runs_and_of_one_that_is_stopped(
    project: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sbic.status.reading.SINKS_SECONDS", 0.1)
    topics, target = Topics(project), in_sqlite(tmp_path / "crowd.db")
    await write(project, topics.posteriors.name, [posterior(f"t{n}", 1.0) for n in range(5)])
    async with reading_status(project) as reader:
        assert (await reader.update()).activity.sinks.known == 0
        with sink(project, target, tmp_path, "--name", "crowd.db") as running:
            await write(project, topics.workers.name, [worker("ann", 0.5)])
            await until_sink(reader, "crowd.db", 0)
            assert running.terminate() == 0
        stopped = await until_sink(reader, "crowd.db", 0)
        for more, total in ((3, 3), (2, 5)):
            await write(project, topics.posteriors.name, [posterior("t1", 2.0)] * more)
            last = await until_sink(reader, "crowd.db", total)
            assert last.committed_at == stopped.committed_at
        said = " ".join((await asyncio.to_thread(sbic, project, "status")).stdout.split())
        assert re.search(r"sinks crowd.db: lag 5, committed \d+ seconds ago", said), said
        with sink(project, target, tmp_path, "--name", "crowd.db"):
            again = await until_sink(reader, "crowd.db", 0)
            assert (again.committed_at or 0) > (stopped.committed_at or 0)


async def until_sink(reader: StatusReader, name: str, lag: int) -> ShownSink:
    """Wait until status shows this sink alone, with this lag."""
    deadline = monotonic() + 60
    while True:
        known, first = (await reader.update()).activity.sinks
        if known == 1 and [(each.name, each.lag) for each in first] == [(name, lag)]:
            return first[0]
        assert monotonic() < deadline, first
        await asyncio.sleep(0.1)


def metrics(port: int) -> str:
    try:
        with urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5) as answer:
            return str(answer.read().decode())
    except OSError:
        return ""


def test_the_truth_of_a_crowd_is_in_the_view(
    project: Settings, broker: EmbeddedBroker, target: Target, tmp_path: Path
) -> None:
    labels = tmp_path / "labels.csv"
    rows = [(f"t{n}", who, 1 if n % 2 else -1) for n in range(20) for who in ("ann", "bob", "eve")]
    labels.write_text("task,worker,label\n" + "".join(f"{t},{w},{x}\n" for t, w, x in rows))
    with instance(broker.url, project.prefix) as running:
        running.wait_ready()
        done = sbic(project, "replay", str(labels), "--wait")
        assert done.returncode == 0, done.stderr
    fill(project, target)
    found = target.rows("SELECT task, truth, labels FROM @truth")
    assert sorted(found) == sorted((f"t{n}", "1" if n % 2 else "-1", 3) for n in range(20))
    assert sorted(target.rows("SELECT worker FROM @workers")) == [("ann",), ("bob",), ("eve",)]


def test_two_sinks_do_not_write_the_same_tables(tmp_path: Path) -> None:
    one, other = (opened(f"sqlite:{tmp_path}/crowd.db", "sbic", shown=True) for _ in range(2))
    for each in (one, other):
        each.open()
        assert each.resume("posteriors", "id", [(0, 9)], POSTERIORS) == [0]
    one.write(POSTERIORS, "id", [], [], {0: AppliedOffsets(0, 5, 9)})
    with pytest.raises(DatabaseTrouble, match="another sink"):
        other.write(POSTERIORS, "id", [], [], {0: AppliedOffsets(0, 5, 9)})
    assert other.resume("posteriors", "id", [(0, 9)], POSTERIORS) == [5]
    for each in (one, other):
        each.close()


def test_offsets_that_kafka_no_longer_has_are_read_from_the_first(tmp_path: Path) -> None:
    database = opened(f"sqlite:{tmp_path}/crowd.db", "sbic", shown=True)
    database.open()
    database.resume("assignments", "id", [(0, 90), (0, 90)], ASSIGNMENTS)
    database.write(
        ASSIGNMENTS, "id", [], [], {0: AppliedOffsets(0, 50, 90), 1: AppliedOffsets(0, 50, 90)}
    )
    # of the first, records up to 70 have expired; of the second, those from 20 on were lost
    assert database.resume("assignments", "id", [(70, 90), (10, 20)], None) == [70, 10]
    assert database.resume("assignments", "id", [(70, 90), (10, 20), (0, 5)], None) == [70, 10, 0]
    database.close()


def refused(project: Settings, *arguments: str, **env: str) -> str:
    done = CliRunner().invoke(
        command, ["sink", *arguments], env={**environment(project), **env}, standalone_mode=False
    )
    return str(done.exception)


def test_what_cannot_be_used_is_refused_in_a_line(
    broker: EmbeddedBroker, project: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "name a TARGET" in refused(project)
    assert "not mysql:" in refused(project, "mysql://ann:secret@db/x")
    assert "secret" not in refused(project, "mysql://ann:secret@db/x")
    assert "needs the name of a file" in refused(project, "sqlite:")
    assert "unable to open" in refused(project, f"sqlite:{tmp_path}/no/crowd.db", "--once")
    assert "not a database" in refused(project, f"sqlite:{__file__}", "--once")
    nowhere = f"postgresql://ann@127.0.0.1:{free_port()}/x"
    assert "refused" in refused(project, nowhere, "--once")
    said = refused(project, "postgresql://ann:secret@127.0.0.1/x")
    assert "PGPASSWORD" in said
    assert "secret" not in said
    other = in_sqlite(tmp_path / "other.db")
    fill(project, other)
    said = refused(project, other.url, "--once", SBIC_PREFIX="none-here")
    assert "has the tables of the project" in said
    monkeypatch.setitem(sys.modules, "psycopg", None)
    assert "pip install 'sbic[postgres]'" in refused(project, nowhere)


def test_a_password_may_be_in_a_file(project: Settings, server: Server, tmp_path: Path) -> None:
    secret = tmp_path / "url"
    secret.write_text(server.url.replace("ann@", f"ann:{PASSWORD}@") + "\n")
    env = {**environment(project), "SBIC_SINK_FILE": str(secret)}
    done = CliRunner().invoke(command, ["sink", "--once"], env=env)
    assert done.exit_code == 0, done.output
    secret.write_text(server.url.replace("ann@", "ann:wrong@"))
    done = CliRunner().invoke(command, ["sink", "--once"], env=env, standalone_mode=False)
    assert "password authentication failed" in str(done.exception)
    assert "wrong" not in str(done.exception)


def test_the_documents_have_every_column() -> None:
    text = document("docs/sink.md").text
    for table in TABLES:
        for column in table.columns:
            assert f"| `{column.name}` | {column.kind} | {column.note} |" in text
