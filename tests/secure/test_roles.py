"""Each role has exactly the rights that it needs; a missing right is named."""

import asyncio
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from itertools import groupby
from pathlib import Path
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen

import pytest
from orjson import loads

from sbic.client import Client
from sbic.kafka.errors import MissingRights
from sbic.kafka.rights import ROLES, SINKS, Operation, Resource, Right
from sbic.project.revision import Given
from sbic.project.security import VARIABLES
from sbic.runtime.process import opened_when_ready
from tests.agents import kafka_tools
from tests.gateway.client import sbic_gateway
from tests.instances import instance
from tests.secure.cluster import Crew, SecureCluster, binding, wait_for

LABELS = "".join(f"t{n % 10},w{n // 10},{1 if n % 3 else -1}\n" for n in range(50))


@pytest.fixture
def labels(tmp_path: Path) -> str:
    path = tmp_path / "labels.csv"
    path.write_text("task,worker,label\n" + LABELS)
    return str(path)


def test_the_whole_path_runs_with_the_rights_of_the_roles(
    crew: Crew, labels: str, tmp_path: Path
) -> None:
    crew.grant(*ROLES)
    refused = crew.run("pipeline", "project", "show")
    assert refused.exit_code == 1
    assert crew.run("operator", "topics").exit_code == 0
    address, prefix = crew.cluster.broker.url, crew.prefix
    with instance(address, prefix, **crew.environment("pipeline")) as running:
        running.wait_ready()
        tiny = ("--tasks", "4", "--workers", "4", "--labels-per-task", "2", "--out", str(tmp_path))
        commands = [
            ("gateway", "simulate", *tiny),
            ("producer", "replay", labels),
            ("operator", "replay", labels, "--wait"),
            ("reader", "status"),
            ("gateway", "status", "--json"),
            ("reader", "export", "posteriors"),
            ("reader", "export", "workers"),
            ("reader", "export", "labels"),
            ("reader", "sink", f"sqlite:{tmp_path}/crowd.db", "--once"),
            ("operator", "tasks", "close", "t1"),
            ("operator", "workers", "set", "ann", "--unblocked"),
            ("operator", "project", "set", "policy=uniform", "lease_seconds=90000"),
            ("operator", "project", "recount"),
            ("reader", "dead-letters", "show"),
        ]
        for role, *arguments in commands:
            done = crew.run(role, *arguments)
            assert done.exit_code == 0, f"{role}: {arguments}: {done.output}"
        wait_for(lambda: running.get("/readyz")[0] == 200)
        use_gateway(crew)
    assert crew.run("operator", "project", "delete", "--yes").exit_code == 0


def use_gateway(crew: Crew) -> None:
    """All that people do through a gateway."""
    with sbic_gateway(crew.environment("gateway")) as (url, process):
        wait_for(lambda: process.poll() is not None or status_of(f"{url}/readyz") == 200)
        with Client(url) as people:
            place = people.send({"task": "by-http", "worker": "ann", "label": 1})
            posterior = people.posterior("by-http", counting=place)
            assert posterior is not None
            assert posterior["labels"] == 1
            assert people.next_task("ann").task is not None
        described = Request(
            f"{url}/tasks", b'{"task":"t1","gold":1}', {"Content-Type": "application/json"}
        )
        listed = Request(
            f"{url}/workers", b'{"worker":"ann"}', {"Content-Type": "application/json"}
        )
        for asked in (described, listed, f"{url}/tasks/by-http", f"{url}/workers", f"{url}/status"):
            assert status_of(asked) == 200


def status_of(asked: str | Request) -> int:
    try:
        with urlopen(asked, timeout=30) as answer:
            return int(answer.status)
    except HTTPError as error:
        return error.code
    except URLError:
        return 0


def rights_of(role: str) -> list[Right]:
    return [
        right
        for right in ROLES[role]
        if right.operation is not Operation.CREATE and right.name != "flat"  # which is off
    ]


@pytest.mark.long
def test_each_right_that_is_taken_away_is_named(crew: Crew, labels: str, tmp_path: Path) -> None:
    crew.grant(*ROLES)
    with crew.without("operator", Right(Operation.CREATE, "topic")):
        refused = crew.run("operator", "topics")
        assert refused.exit_code == 1
        assert (
            "user operator is not authorized to create it; an operator creates the project"
            in refused.output
        )
    assert crew.run("operator", "topics").exit_code == 0
    simulate = ("simulate", "--tasks", "4", "--workers", "20", "--out", str(tmp_path))
    commands: dict[str, tuple[str, ...]] = {
        "producer": ("replay", labels),
        "reader": ("status",),
        "gateway": simulate,
        "operator": ("project", "recount"),
    }
    for role, arguments in commands.items():
        for right in rights_of(role):
            if role == "gateway" and (right in ROLES["reader"] or right.name == "roster"):
                continue  # the reader's, by the same commands; or that of POST /workers alone
            if right.name == SINKS:
                continue  # a sink goes on without it, and status shows none
            special = {
                Right(Operation.READ, "topic", "labels"): ("export", "labels"),
                Right(Operation.READ, "topic", "assignments"): (
                    "sink",
                    "sqlite::memory:",
                    "--once",
                ),
            }
            with crew.without(role, right):
                assert_named(crew, role, right, special.get(right, arguments))


def assert_named(crew: Crew, role: str, right: Right, arguments: tuple[str, ...]) -> None:
    """The command says in one line which right it needs, and ends with status 1."""
    done = crew.run(role, *arguments)
    line = done.output.strip().splitlines()[-1]
    expected = re.escape(f"{right.operation.words} {right.resource} {right.target(crew.prefix)}")
    assert done.exit_code == 1, (role, right, done.output)
    assert re.search(f"user {role} is not authorized to .*{expected}", line), (
        role,
        right,
        done.output,
    )
    assert "kafka-acls.sh --add" in line


async def test_an_instance_does_not_start_without_any_right_of_its_role(crew: Crew) -> None:
    crew.grant("operator", "pipeline")
    done = await asyncio.to_thread(crew.run, "operator", "topics")
    assert done.exit_code == 0, done.output
    given = Given.of(crew.settings("pipeline"))
    await opened_when_ready(given)
    for right in rights_of("pipeline"):
        with crew.without("pipeline", right):
            with pytest.raises(MissingRights) as refused:
                await opened_when_ready(given)
            name = f"{right.operation.words} {right.resource} {right.target(crew.prefix)}"
            assert f"user pipeline is not authorized to {name}" in str(refused.value)


def test_an_instance_whose_right_is_taken_away_waits_until_it_is_back(
    crew: Crew, labels: str
) -> None:
    crew.grant("operator", "pipeline", "producer", "reader")
    assert crew.run("operator", "topics").exit_code == 0
    address, prefix = crew.cluster.broker.url, crew.prefix
    with instance(address, prefix, **crew.environment("pipeline")) as running:
        running.wait_ready()
        for right in (Right(Operation.WRITE, "topic", "evidence"), Right(Operation.READ, "group")):
            with crew.without("pipeline", right):
                assert crew.run("producer", "replay", labels).exit_code == 0
                target = f"{right.resource} {right.target(prefix)}"
                words = f"not authorized to {right.operation.words} {target}"
                wait_for(lambda words=words: words in running.log())  # type: ignore[misc]
                wait_for(lambda words=words: words in running.get("/readyz")[1])  # type: ignore[misc]
            wait_for(lambda: running.get("/readyz")[0] == 200)
        wait_for(lambda: crew.labels_by_task() == {f"t{n}": 5 for n in range(10)})
        assert running.terminate() == 0


def test_a_gateway_says_which_right_it_lacks_and_goes_on_when_it_has_it(crew: Crew) -> None:
    crew.grant("operator", "gateway")
    assert crew.run("operator", "topics").exit_code == 0
    lost = [Right(Operation.WRITE, "topic", "labels"), Right(Operation.DESCRIBE, "group")]
    missing = ExitStack()
    for right in lost:
        missing.enter_context(crew.without("gateway", right))
    with missing, sbic_gateway(crew.environment("gateway")) as (url, _):
        wait_for(
            lambda: "user gateway is not authorized to write topic" in text_of(f"{url}/readyz")
        )
        missing.close()
        wait_for(lambda: status_of(f"{url}/readyz") == 200)


def test_a_sink_without_the_right_to_commit_says_so_and_goes_on(crew: Crew, tmp_path: Path) -> None:
    crew.grant("operator", "reader", "gateway")
    assert crew.run("operator", "topics").exit_code == 0
    url, log = f"sqlite:{tmp_path / 'crowd.db'}", tmp_path / "log"
    right = Right(Operation.READ, "group", SINKS)
    with ExitStack() as running:
        with crew.without("reader", right):
            running.enter_context(running_sink(crew, url, log))
            said = f"not authorized to read group {right.target(crew.prefix)}"
            wait_for(lambda: said in log.read_text())
            assert "warning" in log.read_text().lower()
        wait_for(lambda: sinks_seen_by(crew, "gateway") == ["sqlite"])
        assert sinks_seen_by(crew, "reader") == ["sqlite"]
        assert log.read_text().count(said) == 1
    with crew.without("gateway", Right(Operation.DESCRIBE, "group", SINKS)):
        assert sinks_seen_by(crew, "gateway") == []


def sinks_seen_by(crew: Crew, role: str) -> list[str]:
    done = crew.run(role, "status", "--json")
    assert done.exit_code == 0, done.output
    return [sink["name"] for sink in loads(done.stdout)["sinks"]["first"]]


@contextmanager
def running_sink(crew: Crew, url: str, log: Path) -> Iterator[None]:
    """A sink of the reader; it has to end well."""
    with log.open("wb") as out:
        process = subprocess.Popen(
            [sys.executable, "-m", "sbic", "sink", url],
            env={**os.environ, **crew.environment("reader")},
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
        )
        try:
            yield
            process.terminate()
            assert process.wait(30) == 0, log.read_text()
        finally:
            process.kill()
            process.wait()


def text_of(url: str) -> str:
    try:
        with urlopen(url, timeout=30) as answer:
            return str(answer.read().decode())
    except HTTPError as error:
        return error.read().decode()
    except URLError:
        return ""


# The docs name exactly the rights that the code knows, and their lines grant them.


DOCS = (Path(__file__).parent.parent.parent / "docs" / "security.md").read_text()


def acl_lines(role: str, prefix: str = "sbic") -> Iterator[str]:
    """The commands that grant a role to the user of the same name, topics grouped by operation.

    >>> print(*acl_lines("producer"), sep="\\n")
    kafka-acls.sh --add --allow-principal User:producer --operation Read --topic sbic.project
    kafka-acls.sh --add --allow-principal User:producer --operation Write --topic sbic.labels
    """
    for (operation, resource, is_prefixed), rights in groupby(ROLES[role], _kind):
        names = "".join(f" --{resource} {right.target(prefix)}" for right in rights)
        pattern = " --resource-pattern-type prefixed" if is_prefixed else ""
        who = f"--allow-principal User:{role}"
        yield f"kafka-acls.sh --add {who} --operation {operation.acl_name}{names}{pattern}"


def table_row(role: str, prefix: str = "sbic") -> str:
    """The row of a role in the table of `docs/security.md`.

    >>> table_row("producer")
    '| producer | Read topic `sbic.project`; Write topic `sbic.labels` |'
    """
    cells = []
    for (operation, resource, is_prefixed), rights in groupby(ROLES[role], _kind):
        names = ", ".join(f"`{right.target(prefix)}{'*' * is_prefixed}`" for right in rights)
        cells.append(f"{operation.acl_name} {resource} {names}")
    return f"| {role} | {'; '.join(cells)} |"


def _kind(right: Right) -> tuple[Operation, Resource, bool]:
    return right.operation, right.resource, right.is_prefixed


def test_the_table_has_the_rights_of_each_role() -> None:
    rows = [line for line in DOCS.splitlines() if line.split(" |")[0][2:] in ROLES]
    assert rows == [table_row(role) for role in ROLES]


def test_the_lines_grant_the_rights_of_each_role() -> None:
    lines = [line.strip() for line in DOCS.splitlines() if line.startswith("    kafka-acls.sh")]
    assert sorted(lines) == sorted(line for role in ROLES for line in acl_lines(role))


def test_every_variable_is_in_the_docs() -> None:
    assert [name for name in VARIABLES if f"`{name}`" not in DOCS] == []


@pytest.mark.skipif(not kafka_tools.are_fetched(), reason="make test fetches Kafka's tools")
@pytest.mark.parametrize(
    "role",
    [pytest.param(role, marks=[] if role == "producer" else pytest.mark.long) for role in ROLES],
)
def test_kafka_takes_the_lines(cluster: SecureCluster, tmp_path: Path, role: str) -> None:
    kafka_tools.install(tmp_path)
    where = (
        f" --bootstrap-server {cluster.broker.address}"
        f" --command-config {cluster.folder.admin_properties}"
    )
    script = "\n".join(f"{line}{where}" for line in acl_lines(role))
    path = f"{tmp_path}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["sh", "-e", "-c", script],
        env=os.environ | {"PATH": path},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    rights = [binding(right, role, "sbic") for right in ROLES[role]]
    assert cluster.acls_of(role, "sbic") == sorted(map(repr, rights))
    cluster.revoke(*rights)
