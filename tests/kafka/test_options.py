"""Every Kafka client is made with the options of the one place that knows how to connect."""

import ast
from pathlib import Path

import pytest

from sbic.kafka.connect import client_options
from sbic.project.settings import Settings

ROOT = Path(__file__).parent.parent.parent
CLIENTS = {"AIOKafkaConsumer", "AIOKafkaProducer", "AIOKafkaAdminClient", "AIOKafkaClient"}
FOLDERS = ("pipeline", "tests/soak", "tests/benchmarks")
FILES = sorted(path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py"))


def clients_without_options(source: str) -> list[int]:
    """The lines on which a client is made of other options."""
    return [
        node.lineno
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id in CLIENTS
        and not any(_is_options(keyword, source) for keyword in node.keywords)
    ]


def _is_options(keyword: ast.keyword, source: str) -> bool:
    value = ast.get_source_segment(source, keyword.value) or ""
    if keyword.arg is not None:
        return False
    return value.startswith("client_options(") or (
        value == "options" and "options = client_options(" in source
    )


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_no_client_is_made_without_them(path: Path) -> None:
    assert not clients_without_options(path.read_text())


def test_the_check_sees_a_client_without_them() -> None:
    source = "AIOKafkaConsumer('labels', bootstrap_servers=settings.bootstrap_servers)"
    assert clients_without_options(source) == [1]
    assert clients_without_options("AIOKafkaProducer(**client_options(settings), acks=1)") == []


def test_all_clients_are_made_in_one_file() -> None:
    made_in = {
        path.relative_to(ROOT / "pipeline/sbic").as_posix()
        for path in FILES
        if path.is_relative_to(ROOT / "pipeline/sbic")
        and any(f"{client}(" in path.read_text() for client in CLIENTS)
    }
    assert made_in == {"kafka/connect.py"}


def test_secrets_reach_clients(tmp_path: Path) -> None:
    (tmp_path / "password").write_text("from a file\n")
    settings = Settings.from_env(
        {
            "SBIC_SECURITY_PROTOCOL": "SASL_PLAINTEXT",
            "SBIC_SASL_MECHANISM": "SCRAM-SHA-256",
            "SBIC_SASL_USERNAME": "ann",
            "SBIC_SASL_PASSWORD_FILE": str(tmp_path / "password"),
        }
    )
    assert client_options(settings) == {
        "bootstrap_servers": ["127.0.0.1:9092"],
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "SCRAM-SHA-256",
        "sasl_plain_username": "ann",
        "sasl_plain_password": "from a file",
    }
