"""The embedded broker: clear refusals, data that lasts, and never an orphan."""

import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from zipfile import ZipFile

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from rich.console import Console

from sbic.kafka.admin import ensure_topics
from sbic.local import guard
from sbic.local.broker import VERSION_FILE, DataFolder, EmbeddedBroker
from sbic.local.java import (
    KAFKA_VERSION,
    BadChoice,
    BrokerCannotStart,
    _download,
    cache_folder,
    free_port,
    is_free,
    java_command,
    kafka_answers,
)
from sbic.project.settings import Settings
from sbic.project.topics import Topics
from tests.local.waiting import is_running, wait_until


@contextmanager
def sbic_broker(*arguments: str) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [sys.executable, "-m", "sbic", "broker", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def test_only_its_user_can_read_the_folder(tmp_path: Path) -> None:
    own, shared = tmp_path / "own", tmp_path / "shared"
    own.mkdir(mode=0o755)
    shared.mkdir(mode=0o755)
    (shared / "letter.txt").write_text("of somebody else")
    for path in own, shared:
        folder = DataFolder(path)
        with folder.lock():
            folder.prepare(9092, 9093)
        assert folder.data.stat().st_mode & 0o777 == 0o700
    assert own.stat().st_mode & 0o777 == 0o700
    assert shared.stat().st_mode & 0o777 == 0o755
    own.chmod(0o755)  # as versions before left it
    with DataFolder(own).lock():
        assert own.stat().st_mode & 0o777 == 0o700


def test_a_taken_port_is_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        with sbic_broker("--port", str(port), "--ephemeral") as command:
            out, err = command.communicate(timeout=30)
    assert command.returncode == 2
    assert out == ""
    assert err == f"sbic: port {port} is taken; choose another with --port\n"


def folder_of_version(path: Path, version: str | None) -> Path:
    (path / "data").mkdir(parents=True)
    if version:
        (path / "data" / VERSION_FILE).write_text(version)
    return path


def everything_in(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*")}


def test_a_folder_of_another_version_is_left_alone(tmp_path: Path) -> None:
    folder = folder_of_version(tmp_path / "old", "3.9.0")
    with pytest.raises(BadChoice, match=rf"old has data of Kafka 3.9.0, .* {KAFKA_VERSION}"):
        EmbeddedBroker(data_dir=folder).start()
    assert everything_in(folder) == {"data", f"data/{VERSION_FILE}"}


def test_a_folder_with_other_files_is_left_alone(tmp_path: Path) -> None:
    folder = folder_of_version(tmp_path / "mine", None)
    with pytest.raises(BadChoice, match="was not created by sbic broker"):
        EmbeddedBroker(data_dir=folder).start()
    assert everything_in(folder) == {"data"}


def test_one_folder_has_one_broker(tmp_path: Path) -> None:
    with (
        DataFolder(tmp_path).lock(),
        pytest.raises(BadChoice, match="another broker is running on the data folder"),
    ):
        EmbeddedBroker(data_dir=tmp_path).start()


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(BadChoice, match=r"cannot use the data folder .*file/folder"):
        EmbeddedBroker(data_dir=tmp_path / "file" / "folder").start()


@pytest.mark.broker
def test_when_kafka_does_not_start_its_last_lines_are_shown(tmp_path: Path) -> None:
    folder = folder_of_version(tmp_path, KAFKA_VERSION)
    (folder / "data" / "meta.properties").write_text("version=1\nnode.id=99\n")
    with pytest.raises(BrokerCannotStart, match="Kafka did not start") as refusal:
        EmbeddedBroker(data_dir=folder).start()
    assert "meta.properties" in refusal.value.log
    DataFolder(folder).lock().close()


@pytest.mark.broker
def test_an_ephemeral_broker_leaves_nothing_when_the_terminal_goes_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    port = free_port()
    with sbic_broker("--port", str(port), "--ephemeral") as command:
        read_lines(command, 2)
        assert kafka_answers(port)
        assert len(list(tmp_path.iterdir())) == 1
        command.send_signal(signal.SIGHUP)
        assert command.wait(30) == 0
    assert is_free(port)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.broker
async def test_data_lasts_when_the_command_is_killed_or_terminated(tmp_path: Path) -> None:
    port = free_port()
    settings = Settings(broker=f"kafka://127.0.0.1:{port}", partitions=1)
    arguments = ["--port", str(port), "--data-dir", str(tmp_path / "kafka")]

    with sbic_broker(*arguments) as command:
        ready, what_next = read_lines(command, 2)
        assert re.search(rf"Kafka {KAFKA_VERSION} is ready at kafka://127.0.0.1:{port} ", ready)
        assert f"sbic topics --broker kafka://127.0.0.1:{port}" in what_next
        await ensure_topics(settings)
        await write_label(settings, b"before the kill")
        command.kill()
    wait_until(lambda: is_free(port))
    wait_until(lambda: can_lock(tmp_path / "kafka"))

    with sbic_broker(*arguments) as command:
        read_lines(command, 2)
        await write_label(settings, b"before the end")
        assert await read_labels(settings) == [b"before the kill", b"before the end"]
        command.send_signal(signal.SIGTERM)
        assert command.wait(30) == 0
        assert is_free(port)
        assert can_lock(tmp_path / "kafka")


def read_lines(command: subprocess.Popen[str], number: int) -> list[str]:
    assert command.stdout
    return [command.stdout.readline() for _ in range(number)]


def can_lock(folder: Path) -> bool:
    try:
        DataFolder(folder).lock().close()
    except BadChoice:
        return False
    return True


async def write_label(settings: Settings, value: bytes) -> None:
    producer = AIOKafkaProducer(bootstrap_servers=settings.bootstrap_servers)
    await producer.start()
    try:
        await producer.send_and_wait(Topics(settings).labels.name, value)
    finally:
        await producer.stop()


async def read_labels(settings: Settings) -> list[bytes]:
    consumer = AIOKafkaConsumer(bootstrap_servers=settings.bootstrap_servers)
    await consumer.start()
    try:
        partition = TopicPartition(Topics(settings).labels.name, 0)
        consumer.assign([partition])
        await consumer.seek_to_beginning(partition)
        end = (await consumer.end_offsets([partition]))[partition]
        return [(await consumer.getone(partition)).value for _ in range(end)]
    finally:
        await consumer.stop()


# The guard's command ends when the starter or the guard does, and never before.


SLEEPER = "import os, sys, time; print(os.getpid(), flush=True); time.sleep(600)"


class Guarded:
    """A guard over a Python program, with the pipe that keeps it alive."""

    def __init__(self, program: str, folder: str = "") -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-I", "-S", guard.__file__, folder, sys.executable, "-c", program],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
        )
        assert self.process.stdin
        assert self.process.stdout
        self.stdin, self.stdout = self.process.stdin, self.process.stdout

    def child(self) -> int:
        return int(self.stdout.readline())

    def close(self) -> None:
        self.stdin.close()
        self.process.wait(30)
        self.stdout.close()


@pytest.fixture
def sleeper(tmp_path: Path) -> Iterator[Guarded]:
    folder = tmp_path / "ephemeral"
    folder.mkdir()
    (folder / "data").write_text("gone with the broker")
    guarded = Guarded(SLEEPER, str(folder))
    yield guarded
    guarded.close()


def test_when_the_pipe_closes_the_command_ends_and_the_folder_is_removed(
    sleeper: Guarded, tmp_path: Path
) -> None:
    child = sleeper.child()
    assert is_running(child)
    sleeper.close()
    assert not is_running(child)
    assert not (tmp_path / "ephemeral").exists()


def test_when_the_starter_is_killed_the_command_ends(tmp_path: Path) -> None:
    starter = f"""
import subprocess, sys, time
sys.path.insert(0, {os.getcwd()!r})
from tests.local.test_embedded import SLEEPER, Guarded
print(Guarded(SLEEPER).child(), flush=True)
time.sleep(600)
"""
    with subprocess.Popen([sys.executable, "-c", starter], stdout=subprocess.PIPE) as process:
        assert process.stdout
        child = int(process.stdout.readline())
        assert is_running(child)
        process.kill()
    wait_until(lambda: not is_running(child))


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells a child of this")
def test_when_the_guard_is_killed_the_command_ends(sleeper: Guarded) -> None:
    child = sleeper.child()
    sleeper.process.kill()
    wait_until(lambda: not is_running(child))


def test_when_the_guard_is_terminated_the_command_ends(sleeper: Guarded) -> None:
    child = sleeper.child()
    sleeper.process.send_signal(signal.SIGTERM)
    sleeper.process.wait(30)
    wait_until(lambda: not is_running(child))


def test_the_status_of_a_command_that_ends_by_itself_is_the_guards() -> None:
    guarded = Guarded("import sys; sys.exit(7)")
    assert guarded.process.wait(30) == 7
    guarded.close()


def test_a_command_that_does_not_listen_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    reading, writing = os.pipe()
    stubborn = "import signal, time; signal.signal(15, lambda *_: None); time.sleep(600)"
    monkeypatch.setattr(guard, "GRACE_SECONDS", 0.5)
    monkeypatch.setattr("sys.stdin", os.fdopen(reading))
    os.close(writing)
    before = signal.getsignal(signal.SIGTERM)
    try:
        assert guard.run("", [sys.executable, "-c", stubborn]) < 0
    finally:
        signal.signal(signal.SIGTERM, before)
        sys.stdin.close()


# The first start needs the network, later ones do not, and a broken download is not kept.


@pytest.fixture
def no_network(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Empty caches, and a proxy that does not answer."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("M2_REPO", str(tmp_path / "maven"))
    for name in ("HTTPS_PROXY", "https_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    for name in ("NO_PROXY", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


def test_the_first_start_without_the_network_says_so(
    no_network: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(BrokerCannotStart, match=r"cannot fetch Apache Kafka .* from Maven Central"):
        java_command()
    shown = capfd.readouterr().err
    assert "45 MB" in shown
    assert str(no_network / "maven") in shown.replace("\n", "")


def test_later_starts_need_no_network(no_network: Path) -> None:
    jar = no_network / "kafka.jar"
    jar.touch()
    cache_folder().mkdir(parents=True)
    (cache_folder() / "class-path").write_text(f"{jar}\n")
    assert java_command()[-2:] == ["-cp", str(jar)]


def test_a_jar_that_has_gone_is_fetched_again(no_network: Path) -> None:
    cache_folder().mkdir(parents=True)
    (cache_folder() / "class-path").write_text(f"{no_network / 'gone.jar'}\n")
    with pytest.raises(BrokerCannotStart, match="cannot fetch"):
        java_command()


class Artifact:
    """One that an interrupted download left behind, until it is fetched again."""

    def __init__(self, jar: Path) -> None:
        self.jar = jar

    def resolve(self) -> Path:
        if not self.jar.exists():
            with ZipFile(self.jar, "w") as jar:
                jar.writestr("kafka/Kafka.class", b"")
        return self.jar


def test_what_an_interrupted_download_left_behind_is_fetched_again(tmp_path: Path) -> None:
    whole, half = Artifact(tmp_path / "whole.jar"), Artifact(tmp_path / "half.jar")
    half.jar.write_bytes(whole.resolve().read_bytes()[:40])
    assert _download([whole, half], Console(quiet=True)) == [whole.jar, half.jar]
    assert half.jar.read_bytes() == whole.jar.read_bytes()
