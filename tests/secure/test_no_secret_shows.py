"""A secret appears nowhere: not in logs, errors, help, status, metrics, or the process list."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from threading import Event, Thread

import pytest

from sbic.commands.main import COMMANDS
from sbic.kafka.connect import client_options
from sbic.local.broker import EmbeddedBroker
from sbic.local.secure import SecureFolder
from sbic.project.security import Secret
from tests.instances import instance
from tests.secure.cluster import SHA_512, Crew, run_sbic

SECRET = "s3cret-of-the-tests"


@pytest.fixture
def open_handed(crew: Crew) -> Crew:
    """Users who all have the secret as their password, in a variable."""
    known = Crew(crew.cluster, SBIC_SASL_PASSWORD=SECRET, SBIC_SASL_PASSWORD_FILE="")
    for role in ("operator", "pipeline"):
        crew.cluster.set_password(role, SECRET, SHA_512)
    known.grant("operator", "pipeline")
    return known


@pytest.fixture(autouse=True)
def _as_before(crew: Crew) -> Iterator[None]:
    yield
    for role in ("operator", "pipeline"):
        crew.cluster.set_password(role, crew.cluster.folder.password(role), SHA_512)


def command_lines() -> str:
    """The arguments of all processes that run."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            found.append(path.read_bytes().replace(b"\0", b" ").decode(errors="replace"))
        except OSError:
            continue  # it has ended
    return "\n".join(found)


def test_a_secret_shows_nowhere(open_handed: Crew) -> None:
    crew = open_handed
    said = [crew.run("operator", *words).output for words in (("topics",), ("project", "show"))]
    assert "created" in said[0]
    environment = crew.environment("pipeline")
    with instance(crew.cluster.broker.url, crew.prefix, **environment) as running:
        running.wait_ready()
        said.append(crew.run("operator", "status").output)
        said.append(crew.run("operator", "status", "--json").output)
        said += [running.get(path)[1] for path in ("/metrics", "/readyz", "/healthz", "/")]
        said.append(command_lines())
        assert running.terminate() == 0
        said.append(running.log())
    wrong = crew.environment("pipeline", SBIC_SASL_USERNAME="nobody")
    for words in (("worker",), ("status",), ("project", "show")):
        said.append(run_sbic(wrong, *words).output)
        assert "refuses user nobody" in said[-1]
    said += [run_sbic(environment, name, "--help").output for name in COMMANDS]
    assert SECRET not in "\n".join(said)


def test_no_password_is_an_argument_while_a_secure_broker_starts(tmp_path: Path) -> None:
    folder = SecureFolder(tmp_path, ["reader"])
    started = Event()
    seen: list[str] = []

    def look() -> None:
        while not started.wait(0.02):
            seen.append(command_lines())

    watching = Thread(target=look)
    watching.start()
    try:
        with EmbeddedBroker(secure=folder):
            pass
    finally:
        started.set()
        watching.join()
    assert any("/arguments" in lines for lines in seen), (
        "no look at the processes saw the folder being formatted"
    )
    secrets = [folder.password(name) for name in ("keystore", "admin", "reader")]
    assert not [secret for secret in secrets if any(secret in lines for lines in seen)]


def test_a_traceback_does_not_show_a_secret(crew: Crew) -> None:
    code = (
        "from sbic.project.settings import Settings\n"
        "settings = Settings.from_env()\n"
        "raise ValueError(f'{settings!r} {settings} {settings.security.password}')\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=crew.environment("reader", SBIC_SASL_PASSWORD=SECRET, SBIC_SASL_PASSWORD_FILE=""),
        capture_output=True,
        text=True,
    )
    assert "ValueError: Settings(" in done.stderr
    assert "password=***" in done.stderr
    assert SECRET not in done.stdout + done.stderr


def test_only_the_options_of_a_client_reveal_a_secret(crew: Crew) -> None:
    settings = Crew(crew.cluster, SBIC_SASL_PASSWORD=SECRET, SBIC_SASL_PASSWORD_FILE="").settings(
        "reader"
    )
    assert client_options(settings)["sasl_plain_password"] == SECRET
    assert SECRET not in repr(settings)
    assert settings.security.password == Secret(SECRET)
