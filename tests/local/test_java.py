"""The first start needs the network, later ones do not, and a broken download is not kept."""

from pathlib import Path
from zipfile import ZipFile

import pytest
from rich.console import Console

from sbic.local.java import BrokerCannotStart, _download, cache_folder, java_command


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
