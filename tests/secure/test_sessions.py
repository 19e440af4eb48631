"""A broker that closes each connection after 5 s loses no label."""

from pathlib import Path

import pytest

from tests.instances import instance
from tests.secure.cluster import SHA_256, Crew, SecureCluster, wait_for

RATE = 300
LABELS = 17 * RATE  # three sessions and more
TASKS = 100
PASSWORD = "for five seconds"


@pytest.fixture
def short(cluster: SecureCluster) -> Crew:
    """Users who connect with the mechanism of which the broker ends the sessions."""
    crew = Crew(
        cluster,
        SBIC_SASL_MECHANISM="SCRAM-SHA-256",
        SBIC_SASL_PASSWORD=PASSWORD,
        SBIC_SASL_PASSWORD_FILE="",
    )
    for role in ("operator", "pipeline", "reader"):
        cluster.set_password(role, PASSWORD, SHA_256)
    crew.grant("operator", "pipeline", "reader")
    assert crew.run("operator", "topics").exit_code == 0
    return crew


def test_each_label_counts_once_while_sessions_end(short: Crew, tmp_path: Path) -> None:
    file = tmp_path / "labels.csv"
    rows = (f"t{n % TASKS},w{n // TASKS},{1 if n % 7 else -1}\n" for n in range(LABELS))
    file.write_text("task,worker,label\n" + "".join(rows))
    tasks = [f"t{n}" for n in range(TASKS)]
    # by default a member of the group has twice as long as a connection
    environment = short.environment("pipeline", SBIC_SESSION_SECONDS="10")
    address, prefix = short.cluster.broker.url, short.prefix
    with (
        instance(address, prefix, **environment) as one,
        instance(address, prefix, **environment) as two,
    ):
        one.wait_ready(90)  # sessions end while they join as well
        two.wait_ready(90)
        done = short.run("operator", "replay", str(file), "--rate", str(RATE), "--wait")
        assert done.exit_code == 0, f"{done.output}\n{one.log()}\n{two.log()}"
        assert short.labels_by_task() == dict.fromkeys(tasks, LABELS // TASKS)
        for running in (one, two):
            running.wait_ready()
            assert "removed from the group" not in running.log()
            assert running.terminate() == 0


def test_an_instance_whose_password_is_refused_says_so_and_goes_on(short: Crew) -> None:
    address, prefix = short.cluster.broker.url, short.prefix
    with instance(address, prefix, **short.environment("pipeline")) as running:
        running.wait_ready()
        short.cluster.set_password("pipeline", "another", SHA_256)
        words = "refuses user pipeline or the password (SCRAM-SHA-256)"
        wait_for(lambda: words in running.log(), seconds=60)
        assert running.get("/readyz")[0] == 503
        short.cluster.set_password("pipeline", PASSWORD, SHA_256)
        wait_for(lambda: "Kafka answers again" in running.log(), seconds=60)
        running.wait_ready()
        assert PASSWORD not in running.log()
        assert running.terminate() == 0
