"""Invalid connection settings are refused in one line, before anything connects."""

from pathlib import Path

import pytest
import trustme

from sbic.local.processes import environment
from sbic.project.revision import Given
from sbic.project.security import BadSecurity, Security
from tests.secure.cluster import run_sbic

PROTOCOL = "SBIC_SECURITY_PROTOCOL"
SASL = {
    PROTOCOL: "SASL_PLAINTEXT",
    "SBIC_SASL_MECHANISM": "PLAIN",
    "SBIC_SASL_USERNAME": "ann",
    "SBIC_SASL_PASSWORD": "hunter2",
}


def without(name: str) -> dict[str, str]:
    return {key: value for key, value in SASL.items() if key != name}


@pytest.mark.parametrize(
    ("variables", "words"),
    [
        ({PROTOCOL: "TLS"}, "must be one of PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL, not 'TLS'"),
        (without(PROTOCOL), "SBIC_SASL_MECHANISM is for SASL: set SBIC_SECURITY_PROTOCOL to"),
        (without("SBIC_SASL_MECHANISM"), "SBIC_SASL_MECHANISM must be one of PLAIN"),
        (without("SBIC_SASL_USERNAME"), "PLAIN needs SBIC_SASL_USERNAME"),
        (without("SBIC_SASL_PASSWORD"), "PLAIN needs SBIC_SASL_PASSWORD (or SBIC_SASL_PASSWORD_"),
        (SASL | {"SBIC_SASL_PASSWORD_FILE": "x"}, "are both set: leave one of them out"),
        (
            without("SBIC_SASL_PASSWORD") | {"SBIC_SASL_PASSWORD_FILE": "/nowhere/at/all"},
            "SBIC_SASL_PASSWORD_FILE: cannot read /nowhere/at/all: No such file",
        ),
        (SASL | {"SBIC_SASL_TOKEN_FILE": "x"}, "SBIC_SASL_TOKEN_FILE is not for PLAIN"),
        (SASL | {"SBIC_SASL_MECHANISM": "OAUTHBEARER"}, "OAUTHBEARER needs SBIC_SASL_TOKEN_FILE"),
        (SASL | {"SBIC_SSL_CAFILE": "ca.pem"}, "SBIC_SSL_CAFILE is for TLS: set"),
        ({PROTOCOL: "SSL", "SBIC_SSL_CERTFILE": "x"}, "SBIC_SSL_CERTFILE needs SBIC_SSL_KEYFILE"),
        (
            {PROTOCOL: "SSL", "SBIC_SSL_KEY_PASSWORD": "x"},
            "SBIC_SSL_KEY_PASSWORD needs SBIC_SSL_KEY",
        ),
        ({PROTOCOL: "SSL", "SBIC_SSL_CAFILE": "/none"}, "SBIC_SSL_CAFILE: cannot read /none"),
        ({PROTOCOL: "SSL", "SBIC_SSL_CAFILE": __file__}, "has no certificate in PEM form"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_contradicts_itself_is_refused(variables: dict[str, str], words: str) -> None:
    with pytest.raises(BadSecurity) as refused:
        Security.from_env(variables)
    assert words in str(refused.value)
    assert "hunter2" not in str(refused.value)


def test_a_command_says_so_in_one_line() -> None:
    done = run_sbic(without(PROTOCOL), "status")
    assert done.exit_code == 2
    assert "SBIC_SASL_MECHANISM is for SASL" in done.output.splitlines()[-1]


@pytest.fixture
def files(tmp_path: Path) -> dict[str, str]:
    """A certificate with its key, which has a password."""
    from cryptography.hazmat.primitives.serialization import (
        BestAvailableEncryption,
        Encoding,
        PrivateFormat,
        load_pem_private_key,
    )

    own = trustme.CA().issue_cert("client.example.org")
    own.cert_chain_pems[0].write_to_path(tmp_path / "cert.pem")
    key = load_pem_private_key(own.private_key_pem.bytes(), None)
    kept = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"hunter2"))
    (tmp_path / "key.pem").write_bytes(kept)
    return {
        PROTOCOL: "SSL",
        "SBIC_SSL_CERTFILE": str(tmp_path / "cert.pem"),
        "SBIC_SSL_KEYFILE": str(tmp_path / "key.pem"),
    }


def test_a_key_is_opened_with_its_password_alone(files: dict[str, str], tmp_path: Path) -> None:
    assert Security.from_env(files | {"SBIC_SSL_KEY_PASSWORD": "hunter2"}).context
    with pytest.raises(BadSecurity, match="SBIC_SSL_KEY_PASSWORD is needed: the key in"):
        Security.from_env(files)  # and nobody is asked for it on the terminal
    with pytest.raises(BadSecurity, match="is not the password of the key in"):
        Security.from_env(files | {"SBIC_SSL_KEY_PASSWORD": "other"})
    trustme.CA().issue_cert("b").private_key_pem.write_to_path(tmp_path / "key.pem")
    with pytest.raises(BadSecurity, match="is not the key of the certificate in"):
        Security.from_env(files)


def test_a_secret_in_a_file_is_read_anew_by_the_next_process(tmp_path: Path) -> None:
    file = tmp_path / "password"
    variables = without("SBIC_SASL_PASSWORD") | {"SBIC_SASL_PASSWORD_FILE": str(file)}
    file.write_text("old\n")
    security = Security.from_env(variables)
    file.write_text("new\n")
    child = Security.from_env(environment(Given({}, security)))
    assert security.password is not None
    assert child.password is not None
    assert (security.password.reveal(), child.password.reveal()) == ("old", "new")


def test_an_instance_on_a_broker_of_its_own_takes_no_password_along() -> None:
    assert environment(Given({}))["SBIC_SASL_PASSWORD"] == ""
