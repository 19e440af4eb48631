"""The connection: `SBIC_SECURITY_PROTOCOL`, `SBIC_SASL_*`, `SBIC_SSL_*`; certificates, secrets.

They are environment variables only: a flag would show a secret in the process list. A secret can
also be read from a file, named by the variable with the suffix `_FILE`.
"""

import os
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Literal, Self, cast, get_args

from sbic.foreign import shown


class BadSecurity(ValueError):
    """Settings of the connection that are invalid, or do not fit together."""


# A secret that is not shown in logs, errors and tracebacks.


HIDDEN = "***"


@dataclass(frozen=True, repr=False)
class Secret:
    """A password; only `reveal` returns it.

    >>> password = Secret("hunter2")
    >>> password, f"{password}", password.reveal() == "hunter2"
    (***, '***', True)
    """

    _text: str = field(repr=False)

    def reveal(self) -> str:
        """Return the secret itself, to send it."""
        return self._text

    def __repr__(self) -> str:
        return HIDDEN

    def __reduce__(self) -> str | tuple[object, ...]:
        raise TypeError("a secret must not be pickled")


# The TLS context of a client: certificates and host names are always checked.


def tls_context(
    cafile: str | None, certfile: str | None, keyfile: str | None, key_password: Secret | None
) -> ssl.SSLContext:
    """Return a context that trusts the CAs in `cafile`, or those of this machine without one.

    Raises `BadSecurity` with the variable whose file cannot be used.
    """
    for name, path in (("CAFILE", cafile), ("CERTFILE", certfile), ("KEYFILE", keyfile)):
        if path is not None:
            _check_readable(f"SBIC_SSL_{name}", path)
    try:
        context = ssl.create_default_context(cafile=cafile)
    except ssl.SSLError:
        raise BadSecurity(
            f"SBIC_SSL_CAFILE: {cafile} has no certificate in PEM form (BEGIN CERTIFICATE)"
        ) from None
    if certfile is not None and keyfile is not None:
        _load_certificate(context, certfile, keyfile, key_password)
    return context


def _check_readable(variable: str, path: str) -> None:
    try:
        Path(path).read_bytes()
    except OSError as error:
        raise BadSecurity(f"{variable}: cannot read {path}: {error.strerror}") from None


def _load_certificate(
    context: ssl.SSLContext, certfile: str, keyfile: str, key_password: Secret | None
) -> None:
    asked = False

    def password() -> str:  # without one OpenSSL would ask for it on the terminal
        nonlocal asked
        asked = True
        return key_password.reveal() if key_password else ""

    try:
        context.load_cert_chain(certfile, keyfile, password)
    except ssl.SSLError as error:
        raise BadSecurity(_why(error, certfile, keyfile, asked, key_password)) from None


def _why(
    error: ssl.SSLError, certfile: str, keyfile: str, asked: bool, key_password: Secret | None
) -> str:
    if asked and key_password is None:
        return f"SBIC_SSL_KEY_PASSWORD is needed: the key in {keyfile} is encrypted"
    if asked:
        return f"SBIC_SSL_KEY_PASSWORD is not the password of the key in {keyfile}"
    if error.reason == "KEY_VALUES_MISMATCH":
        return f"SBIC_SSL_KEYFILE: {keyfile} is not the key of the certificate in {certfile}"
    return f"SBIC_SSL_CERTFILE and SBIC_SSL_KEYFILE: {certfile} and {keyfile} are not in PEM form"


Protocol = Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"]
Mechanism = Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"]

PROTOCOL = "SBIC_SECURITY_PROTOCOL"
MECHANISM = "SBIC_SASL_MECHANISM"
USERNAME = "SBIC_SASL_USERNAME"
PASSWORD = "SBIC_SASL_PASSWORD"
TOKEN_FILE = "SBIC_SASL_TOKEN_FILE"
TOKEN_COMMAND = "SBIC_SASL_TOKEN_COMMAND"
CAFILE = "SBIC_SSL_CAFILE"
CERTFILE = "SBIC_SSL_CERTFILE"
KEYFILE = "SBIC_SSL_KEYFILE"
KEY_PASSWORD = "SBIC_SSL_KEY_PASSWORD"

SECRETS = (PASSWORD, KEY_PASSWORD)
OF_SASL = (MECHANISM, USERNAME, PASSWORD, TOKEN_FILE, TOKEN_COMMAND)
OF_SSL = (CAFILE, CERTFILE, KEYFILE, KEY_PASSWORD)
VARIABLES = (PROTOCOL, *OF_SASL, *OF_SSL, *(f"{name}_FILE" for name in SECRETS))
"""Every variable of the connection."""


@dataclass(frozen=True)
class Security:
    """How clients connect; by default without TLS and SASL.

    >>> ann = {MECHANISM: "PLAIN", USERNAME: "ann", PASSWORD: "x"}
    >>> Security.from_env({PROTOCOL: "SASL_SSL", **ann})
    Security(protocol='SASL_SSL', mechanism='PLAIN', username='ann', password=***)
    >>> Security.from_env({PASSWORD: "x"})
    Traceback (most recent call last):
    sbic.project.security.BadSecurity: SBIC_SASL_PASSWORD is for SASL: set \
SBIC_SECURITY_PROTOCOL to SASL_SSL (or SASL_PLAINTEXT), or leave it out
    """

    protocol: Protocol = "PLAINTEXT"
    mechanism: Mechanism | None = None
    username: str | None = None
    password: Secret | None = None
    token_file: str | None = field(default=None, repr=False)
    token_command: str | None = field(default=None, repr=False)
    cafile: str | None = field(default=None, repr=False)
    certfile: str | None = field(default=None, repr=False)
    keyfile: str | None = field(default=None, repr=False)
    key_password: Secret | None = field(default=None, repr=False)
    given: Mapping[str, str] = field(default_factory=dict, repr=False, compare=False)

    @classmethod
    def from_env(cls, environ: Mapping[str, str] = os.environ) -> Self:
        """Read the environment; raises `BadSecurity`."""
        given = {name: environ[name] for name in VARIABLES if environ.get(name)}
        secrets = {name: read_secret(name, given) for name in SECRETS}
        _check(given, {**given, **{name: "" for name, found in secrets.items() if found}})
        security = cls(
            protocol=cast(Protocol, given.get(PROTOCOL, "PLAINTEXT")),
            mechanism=cast(Mechanism | None, given.get(MECHANISM)),
            username=given.get(USERNAME),
            password=secrets[PASSWORD],
            token_file=given.get(TOKEN_FILE),
            token_command=given.get(TOKEN_COMMAND),
            cafile=given.get(CAFILE),
            certfile=given.get(CERTFILE),
            keyfile=given.get(KEYFILE),
            key_password=secrets[KEY_PASSWORD],
            given=given,
        )
        if security.has_tls:
            _ = security.context  # reads the files before anything runs
        return security

    @property
    def has_tls(self) -> bool:
        """Whether connections are encrypted."""
        return self.protocol in ("SSL", "SASL_SSL")

    @property
    def has_sasl(self) -> bool:
        """Whether clients authenticate by SASL."""
        return self.protocol in ("SASL_PLAINTEXT", "SASL_SSL")

    @cached_property
    def context(self) -> ssl.SSLContext:
        """The TLS context of every client."""
        return tls_context(self.cafile, self.certfile, self.keyfile, self.key_password)

    def environment(self) -> dict[str, str]:
        """Get the variables for a process that connects in the same way; those not given are empty.

        Files are passed by name, so that a restarted process reads their current content.
        """
        return {name: self.given.get(name, "") for name in VARIABLES}


def read_secret(name: str, given: Mapping[str, str]) -> Secret | None:
    """Return a secret in a variable, or in the file that the variable NAME_FILE names."""
    path = given.get(f"{name}_FILE")
    if path is None:
        return Secret(given[name]) if name in given else None
    if name in given:
        raise BadSecurity(f"{name} and {name}_FILE are both set: leave one of them out")
    try:
        text = Path(path).read_text().rstrip("\r\n")
    except OSError as error:
        raise BadSecurity(f"{name}_FILE: cannot read {path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise BadSecurity(f"{name}_FILE: {path} is not text in UTF-8") from None
    if not text:
        raise BadSecurity(f"{name}_FILE: {path} is empty")
    return Secret(text)


def _check(given: Mapping[str, str], present: Mapping[str, str]) -> None:
    """Raise `BadSecurity` for invalid settings; `present` includes secrets from files."""
    protocol = given.get(PROTOCOL, "PLAINTEXT")
    _check_choice(PROTOCOL, protocol, get_args(Protocol))
    if not protocol.startswith("SASL"):
        _check_absent(present, OF_SASL, "for SASL", "SASL_SSL (or SASL_PLAINTEXT)")
    if not protocol.endswith("SSL"):
        _check_absent(present, OF_SSL, "for TLS", "SSL or SASL_SSL")
    if protocol.startswith("SASL"):
        _check_sasl(given, present)
    if (CERTFILE in given) != (KEYFILE in given):
        have, lacks = (CERTFILE, KEYFILE) if CERTFILE in given else (KEYFILE, CERTFILE)
        raise BadSecurity(f"{have} needs {lacks}: a certificate and its key go together")
    if KEY_PASSWORD in present and KEYFILE not in given:
        raise BadSecurity(f"{KEY_PASSWORD} needs {KEYFILE}: it is the password of that key")


def _check_choice(name: str, value: str | None, choices: tuple[str, ...]) -> None:
    if value not in choices:
        has = f", not {shown(value)}" if value else ""
        raise BadSecurity(f"{name} must be one of {', '.join(choices)}{has}")


def _check_absent(
    present: Mapping[str, str], names: tuple[str, ...], purpose: str, protocols: str
) -> None:
    for name in names:
        if name in present:
            raise BadSecurity(
                f"{name} is {purpose}: set {PROTOCOL} to {protocols}, or leave it out"
            )


def _check_sasl(given: Mapping[str, str], present: Mapping[str, str]) -> None:
    mechanism = given.get(MECHANISM)
    _check_choice(MECHANISM, mechanism, get_args(Mechanism))
    tokens = [name for name in (TOKEN_FILE, TOKEN_COMMAND) if name in given]
    if mechanism == "OAUTHBEARER":
        if len(tokens) != 1:
            raise BadSecurity(f"OAUTHBEARER needs {TOKEN_FILE} or {TOKEN_COMMAND}, one of them")
        needless, needed = [name for name in (USERNAME, PASSWORD) if name in present], []
    else:
        needless, needed = tokens, [name for name in (USERNAME, PASSWORD) if name not in present]
    if needless:
        raise BadSecurity(f"{needless[0]} is not for {mechanism}: leave it out")
    if needed:
        as_file = f" (or {PASSWORD}_FILE)" if needed[0] == PASSWORD else ""
        raise BadSecurity(f"{mechanism} needs {needed[0]}{as_file}")
