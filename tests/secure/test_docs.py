"""The docs name exactly the rights that the code knows, and their lines grant them."""

import os
import subprocess
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path

import pytest

from sbic.kafka.rights import ROLES, Operation, Resource, Right
from sbic.project.security import VARIABLES
from tests.agents import kafka_tools
from tests.secure.cluster import SecureCluster, binding

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
