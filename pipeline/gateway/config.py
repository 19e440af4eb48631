"""How a gateway is run: where it listens, who may ask, and how much."""

from dataclasses import dataclass
from ipaddress import ip_address

from pipeline.gateway.errors import CannotStart

LEAST_TOKEN = 16  # characters: shorter ones can be guessed


@dataclass(frozen=True)
class GatewayConfig:
    """Checked when it is made: off the loopback nobody listens without a token.

    >>> GatewayConfig(host="0.0.0.0")
    Traceback (most recent call last):
    pipeline.gateway.errors.CannotStart: 0.0.0.0 can be reached from other machines: set \
SBIC_GATEWAY_TOKEN or SBIC_GATEWAY_TOKEN_FILE to a secret of 16 characters or more, or listen on \
127.0.0.1
    >>> GatewayConfig(host="::1").is_local
    True
    """

    host: str = "127.0.0.1"
    port: int = 8080
    tokens: tuple[str, ...] = ()
    origins: tuple[str, ...] = ()
    rate: float = 5000.0  # requests per second of a token
    connections: int = 1000

    def __post_init__(self) -> None:
        if not self.tokens and not self.is_local:
            raise CannotStart(
                f"{self.host} can be reached from other machines: set SBIC_GATEWAY_TOKEN or "
                f"SBIC_GATEWAY_TOKEN_FILE to a secret of {LEAST_TOKEN} characters or more, or "
                "listen on 127.0.0.1"
            )
        if any(len(token) < LEAST_TOKEN or not token.isascii() for token in self.tokens):
            raise CannotStart(
                f"a token in SBIC_GATEWAY_TOKEN has less than {LEAST_TOKEN} characters, or others "
                "than ASCII: make one with: openssl rand -hex 32"
            )

    @property
    def is_local(self) -> bool:
        """Whether only this machine can connect."""
        return is_loopback(self.host)


def is_loopback(host: str) -> bool:
    """Whether a host's name is one of this machine, seen from itself.

    >>> [is_loopback(host) for host in ("localhost", "127.0.0.2", "::1", "0.0.0.0", "evil.example")]
    [True, True, True, False, False]
    """
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False
