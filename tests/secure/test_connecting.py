"""Every reason why a client cannot connect is one line that says what to do."""

import socket
import ssl
from base64 import urlsafe_b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from threading import Thread

import pytest
import trustme
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
    load_pem_private_key,
)
from orjson import dumps

from sbic.local.broker import EmbeddedBroker
from tests.instances import instance
from tests.secure.cluster import SHA_256, Crew, SecureCluster, run_sbic, wait_for

PASSWORD = "SBIC_SASL_PASSWORD"


def said(environment: dict[str, str]) -> str:
    """What `sbic status` says, which must be one line."""
    done = run_sbic(environment, "status")
    assert done.exit_code == 1, done.output
    (line,) = done.output.strip().splitlines()
    return line


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        (
            {PASSWORD: "wrong", f"{PASSWORD}_FILE": ""},
            "refuses user reader or the password (SCRAM-SHA-512): check SBIC_SASL_USERNAME",
        ),
        ({"SBIC_SASL_USERNAME": "nobody"}, "refuses user nobody or the password"),
        ({"SBIC_SSL_CAFILE": ""}, "of a CA that is not trusted here (those of this machine): set"),
        (
            {"SBIC_SECURITY_PROTOCOL": "SASL_PLAINTEXT", "SBIC_SSL_CAFILE": ""},
            "speaks TLS only: set SBIC_SECURITY_PROTOCOL to SASL_SSL",
        ),
    ],
    ids=["password", "user", "ca", "plaintext"],
)
def test_a_wrong_setting_is_named(
    cluster: SecureCluster, changes: dict[str, str], words: str
) -> None:
    assert words in said(cluster.environment("reader", **changes))


def test_tls_and_passwords_are_asked_for(cluster: SecureCluster) -> None:
    plain = {"SBIC_BROKER": cluster.broker.url}
    assert "speaks TLS only" in said(plain)
    tls = {"SBIC_SECURITY_PROTOCOL": "SSL", "SBIC_SSL_CAFILE": str(cluster.folder.cafile)}
    assert "requires a user and a password" in said(plain | tls)
    assert "requires a client certificate" in said({"SBIC_BROKER": cluster.certificates} | tls)


def test_a_server_without_tls_or_passwords_is_named(
    broker: EmbeddedBroker, cluster: SecureCluster
) -> None:
    here = {"SBIC_BROKER": broker.url}
    assert "does not speak TLS" in said(cluster.environment("reader", **here))
    sasl = {"SBIC_SECURITY_PROTOCOL": "SASL_PLAINTEXT", "SBIC_SSL_CAFILE": ""}
    assert "does not use SASL" in said(cluster.environment("reader", **here, **sasl))


@contextmanager
def tls_server(certificate: trustme.LeafCert) -> Iterator[str]:
    """A server that goes no further than TLS; its address."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    certificate.configure_cert(context)
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            while True:
                try:
                    connection, _ = server.accept()
                except OSError:
                    return
                try:
                    context.wrap_socket(connection, server_side=True).close()
                except OSError:
                    connection.close()

        thread = Thread(target=serve, daemon=True)
        thread.start()
        yield f"kafka://127.0.0.1:{server.getsockname()[1]}"
        server.shutdown(socket.SHUT_RDWR)
        thread.join()


@pytest.mark.parametrize(
    ("host", "days", "words"),
    [
        ("127.0.0.1", -1, "has a certificate that has expired"),
        ("kafka.example.org", 1, "has a certificate for another host: set SBIC_BROKER to the name"),
    ],
    ids=["expired", "host"],
)
def test_a_bad_certificate_is_named(tmp_path: Path, host: str, days: int, words: str) -> None:
    authority = trustme.CA()
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    until = datetime.now(UTC) + timedelta(days=days)
    with tls_server(authority.issue_cert(host, not_after=until)) as address:
        line = said(
            {
                "SBIC_BROKER": address,
                "SBIC_SECURITY_PROTOCOL": "SSL",
                "SBIC_SSL_CAFILE": str(tmp_path / "ca.pem"),
            }
        )
    assert words in line


def test_other_mechanisms_connect(crew: Crew, tmp_path: Path) -> None:
    cluster = crew.cluster
    crew.grant("operator", "reader")
    assert crew.run("operator", "topics").exit_code == 0
    by_plain = {"SBIC_SASL_MECHANISM": "PLAIN", PASSWORD: "plainly", f"{PASSWORD}_FILE": ""}
    cluster.set_password("reader", "sha-256", SHA_256)
    by_sha_256 = by_plain | {"SBIC_SASL_MECHANISM": "SCRAM-SHA-256", PASSWORD: "sha-256"}
    for changes in (by_plain, by_sha_256):
        done = run_sbic(crew.environment("reader", **changes), "status")
        assert done.exit_code == 0, done.output
    line = said(crew.environment("reader", **by_plain | {PASSWORD: "wrong"}))
    assert "refuses user reader or the password (PLAIN)" in line


def test_a_token_comes_from_a_file_or_a_command(crew: Crew, tmp_path: Path) -> None:
    crew.grant("operator", "reader")
    assert crew.run("operator", "topics").exit_code == 0
    path = tmp_path / "token"
    path.write_text(unsecured_token("reader") + "\n")
    oauth = {
        "SBIC_SASL_MECHANISM": "OAUTHBEARER",
        "SBIC_SASL_USERNAME": "",
        f"{PASSWORD}_FILE": "",
    }
    ways = {
        "SBIC_SASL_TOKEN_FILE": str(path),
        "SBIC_SASL_TOKEN_COMMAND": f"cat '{path}'",
    }
    for name, value in ways.items():
        done = run_sbic(crew.environment("reader", **oauth, **{name: value}), "status")
        assert done.exit_code == 0, done.output
    command = "SBIC_SASL_TOKEN_COMMAND"
    assert f"{command} ended with status 3" in said(
        crew.environment("reader", **oauth, **{command: "sh -c 'exit 3'"})
    )
    path.write_text(unsecured_token("reader", seconds=-60))
    file = {"SBIC_SASL_TOKEN_FILE": str(path)}
    assert "refuses the token" in said(crew.environment("reader", **oauth, **file))
    path.unlink()
    assert "SBIC_SASL_TOKEN_FILE: cannot read" in said(crew.environment("reader", **oauth, **file))


def unsecured_token(user: str, seconds: int = 600) -> str:
    """A token that declares itself unsigned."""
    now = int(datetime.now(UTC).timestamp())
    claims = {"sub": user, "iat": now - 120, "exp": now + seconds}
    parts = (dumps({"alg": "none"}), dumps(claims), b"")
    return ".".join(urlsafe_b64encode(part).decode().rstrip("=") for part in parts)


@pytest.mark.parametrize("has_password", [False, True], ids=["plain key", "encrypted key"])
def test_a_client_certificate_connects(
    cluster: SecureCluster, authority: trustme.CA, tmp_path: Path, has_password: bool
) -> None:
    """Who the client is, is then known: it has no rights yet."""
    environment = certified(cluster, authority, tmp_path)
    if has_password:
        environment["SBIC_SSL_KEY_PASSWORD"] = "of the key"
        key = load_pem_private_key((tmp_path / "key.pem").read_bytes(), None)
        locked = BestAvailableEncryption(b"of the key")
        pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, locked)
        (tmp_path / "key.pem").write_bytes(pem)
    assert "this client is not authorized to read topic" in said(environment)


def test_a_client_certificate_of_another_authority_is_refused(
    cluster: SecureCluster, tmp_path: Path
) -> None:
    line = said(certified(cluster, trustme.CA(), tmp_path))
    assert "does not accept the certificate in SBIC_SSL_CERTFILE" in line


def certified(cluster: SecureCluster, authority: trustme.CA, folder: Path) -> dict[str, str]:
    """The settings of a client with a certificate of this authority."""
    own = authority.issue_cert("client.example.org", common_name="client.example.org")
    own.private_key_pem.write_to_path(folder / "key.pem")
    own.cert_chain_pems[0].write_to_path(folder / "cert.pem")
    return {
        "SBIC_BROKER": cluster.certificates,
        "SBIC_SECURITY_PROTOCOL": "SSL",
        "SBIC_SSL_CAFILE": str(cluster.folder.cafile),
        "SBIC_SSL_CERTFILE": str(folder / "cert.pem"),
        "SBIC_SSL_KEYFILE": str(folder / "key.pem"),
    }


# A broker that closes each connection after 5 s loses no label.


RATE = 300
LABELS = 17 * RATE  # three sessions and more
TASKS = 100
NEXT_PASSWORD = "for five seconds"


@pytest.fixture
def short(cluster: SecureCluster) -> Crew:
    """Users who connect with the mechanism of which the broker ends the sessions."""
    crew = Crew(
        cluster,
        SBIC_SASL_MECHANISM="SCRAM-SHA-256",
        SBIC_SASL_PASSWORD=NEXT_PASSWORD,
        SBIC_SASL_PASSWORD_FILE="",
    )
    for role in ("operator", "pipeline", "reader"):
        cluster.set_password(role, NEXT_PASSWORD, SHA_256)
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
        short.cluster.set_password("pipeline", NEXT_PASSWORD, SHA_256)
        wait_for(lambda: "Kafka answers again" in running.log(), seconds=60)
        running.wait_ready()
        assert NEXT_PASSWORD not in running.log()
        assert running.terminate() == 0
