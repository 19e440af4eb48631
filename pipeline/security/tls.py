"""The TLS context of a client: certificates and host names are always checked."""

import ssl
from pathlib import Path

from pipeline.security.errors import BadSecurity
from pipeline.security.secret import Secret


def tls_context(
    cafile: str | None, certfile: str | None, keyfile: str | None, key_password: Secret | None
) -> ssl.SSLContext:
    """A context that trusts the CAs in `cafile`, or those of this machine without one.

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
