"""Turns the options of aiokafka's clients into the credentials that Faust expects."""

from collections.abc import Mapping
from typing import Any

from faust.auth import Credentials, OAuthCredentials, SASLCredentials, SSLCredentials


def credentials_of(options: Mapping[str, Any]) -> Credentials | None:
    """Return the credentials of Faust's consumer; None for a connection in plain text.

    >>> credentials_of({"security_protocol": "PLAINTEXT"}) is None
    True
    """
    context = options.get("ssl_context")  # Faust 0.15.3 cannot create one
    if "sasl_oauth_token_provider" in options:
        provider = options["sasl_oauth_token_provider"]
        return OAuthCredentials(oauth_cb=provider, ssl_context=context)
    if "sasl_mechanism" in options:
        return SASLCredentials(
            username=options["sasl_plain_username"],
            password=options["sasl_plain_password"],
            mechanism=options["sasl_mechanism"],
            ssl_context=context,
        )
    return None if context is None else SSLCredentials(context)
