"""The options of every Kafka client: where the brokers are, and how to connect to them."""

from typing import Any

from pipeline.kafka.tokens import TokenProvider
from pipeline.settings import Settings


def client_options(settings: Settings) -> dict[str, Any]:
    """The options common to aiokafka's consumers, producers and admin clients.

    >>> client_options(Settings(broker="kafka://one:9092"))
    {'bootstrap_servers': ['one:9092'], 'security_protocol': 'PLAINTEXT'}
    """
    security = settings.security
    options: dict[str, Any] = {
        "bootstrap_servers": settings.bootstrap_servers,
        "security_protocol": security.protocol,
    }
    if security.has_tls:
        options["ssl_context"] = security.context
    if security.has_sasl:
        options["sasl_mechanism"] = security.mechanism
    if security.mechanism == "OAUTHBEARER":
        options["sasl_oauth_token_provider"] = TokenProvider(security)
    elif security.has_sasl:
        assert security.password
        options["sasl_plain_username"] = security.username
        options["sasl_plain_password"] = security.password.reveal()
    return options
