"""The docs name exactly the rights that the code knows, and their lines grant them."""

import os
import subprocess
from pathlib import Path

import pytest

from sbic.kafka.rights import ROLES, acl_lines, table_row
from sbic.project.security import VARIABLES
from tests.agents import kafka_tools
from tests.secure.cluster import SecureCluster, binding

DOCS = (Path(__file__).parent.parent.parent / "docs" / "security.md").read_text()


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
