"""The settings of a gateway, its errors and its limits."""

import os
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from ipaddress import IPv4Address, IPv6Network, ip_address
from pathlib import Path
from typing import Any

from sbic.project.settings import Spec, check_values, setting, specs_of, variable


class GatewayCannotStart(Exception):
    """The gateway cannot start; the message says what to change."""


class HttpProblem(Exception):
    """An answer with an error status: one line that says what to do, and more fields."""

    def __init__(
        self, status: int, error: str, headers: dict[str, str] | None = None, **fields: Any
    ) -> None:
        super().__init__(error)
        self.status = status
        self.headers = headers or {}
        self.fields: dict[str, Any] = {"error": error, **fields}


def unavailable(
    error: str, fields: Mapping[str, Any] | None = None, retry_after: int = 2
) -> HttpProblem:
    """503 with Retry-After: the client should try again after that many seconds.

    >>> unavailable("Kafka does not answer").headers
    {'Retry-After': '2'}
    """
    return HttpProblem(503, error, {"Retry-After": str(retry_after)}, **(fields or {}))


# The settings of a gateway: where it listens, who may send requests, and how many.


GROUP = "gateway"
TOKEN = variable(f"{GROUP}_token")
TOKEN_FILE = f"{TOKEN}_FILE"
SHORTEST_TOKEN = 16  # characters: shorter ones can be guessed


def listed(text: str) -> tuple[str, ...]:
    """Return the parts of a list separated by commas.

    >>> listed(" one, two,")
    ('one', 'two')
    """
    return tuple(part.strip() for part in text.split(",") if part.strip())


_setting = partial(setting, group=GROUP)


@dataclass(frozen=True)
class GatewayConfig:
    """Checked when it is created: a gateway that other machines can reach needs a token.

    Tokens are given by environment variables only: a flag would show them in the process list.

    >>> GatewayConfig(host="0.0.0.0")
    Traceback (most recent call last):
    sbic.gateway.config.GatewayCannotStart: 0.0.0.0 can be reached from other machines: set \
SBIC_GATEWAY_TOKEN or SBIC_GATEWAY_TOKEN_FILE to a secret of 16 characters or more, or listen on \
127.0.0.1
    >>> GatewayConfig(host="::1").is_local
    True
    >>> GatewayConfig(rate=0)
    Traceback (most recent call last):
    sbic.project.settings.BadSetting: SBIC_GATEWAY_RATE must be a number of requests from 1 on, \
not 0
    """

    host: str = _setting(
        "127.0.0.1",
        "Address to listen on; one that other machines can reach needs a token.",
        "a host name or address",
        lambda value: bool(value) and not re.search(r"[\s/]", value),
    )
    port: int = _setting(
        8080,
        "Port to listen on; 0: any free one.",
        "a port from 0 to 65535",
        lambda value: 0 <= value <= 65535,
    )
    projects: tuple[str, ...] = _setting(
        (),
        "Prefixes of the projects to serve, separated by commas; the first is the default.  "
        "[default: --prefix]",
        "prefixes separated by commas",
        lambda value: type(value) is tuple,
        listed,
    )
    cors: tuple[str, ...] = _setting(
        (),
        "Origins whose pages may send requests, separated by commas: https://label.example.org",
        "origins separated by commas",
        lambda value: type(value) is tuple,
        listed,
    )
    rate: float = _setting(
        5000,
        "Most requests per second for each token.",
        "a number of requests from 1 on",
        lambda value: value >= 1,
        float,
    )
    connections: int = _setting(
        1000,
        "Most connections open at once.",
        "a whole number from 1 on",
        lambda value: value >= 1,
    )
    address_share: float = _setting(
        0.25,
        "Largest share of the connections and of the event streams for one address; 1 behind a "
        "proxy, whose address all clients have.",
        "a share above 0, up to 1",
        lambda value: 0 < value <= 1,
        float,
    )
    tokens: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        check_values(self, GATEWAY_SPECS)
        if not self.tokens and not self.is_local:
            raise GatewayCannotStart(
                f"{self.host} can be reached from other machines: set {TOKEN} or {TOKEN_FILE} to a "
                f"secret of {SHORTEST_TOKEN} characters or more, or listen on 127.0.0.1"
            )
        if any(len(token) < SHORTEST_TOKEN or not token.isascii() for token in self.tokens):
            raise GatewayCannotStart(
                f"a token in {TOKEN} has fewer than {SHORTEST_TOKEN} characters, or characters "
                "that are not ASCII: make one with: openssl rand -hex 32"
            )

    @property
    def is_local(self) -> bool:
        """Whether only this machine can connect."""
        return is_loopback(self.host)


GATEWAY_SPECS: dict[str, Spec] = specs_of(GatewayConfig)
"""The settings of a gateway that are also flags: all but its tokens."""

VARIABLES = (*(variable(f"{GROUP}_{name}") for name in GATEWAY_SPECS), TOKEN, TOKEN_FILE)
"""Every variable of a gateway."""


def tokens_in(environ: Mapping[str, str] = os.environ) -> tuple[str, ...]:
    """Return the tokens in the environment, or in its file; raise `GatewayCannotStart`."""
    path = environ.get(TOKEN_FILE)
    if not path:
        return listed(environ.get(TOKEN, ""))
    try:
        return listed(Path(path).read_text())
    except (OSError, UnicodeDecodeError) as error:
        raise GatewayCannotStart(
            f"cannot read the tokens in {path}, {TOKEN_FILE}: {error}"
        ) from None


def is_loopback(host: str) -> bool:
    """Whether a host name is one of this machine, seen from itself.

    >>> [is_loopback(host) for host in ("localhost", "127.0.0.2", "::1", "0.0.0.0", "evil.example")]
    [True, True, True, False, False]
    """
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


# How many of one kind an address has: connections or event streams.


IPV6_SITE = 64  # bits: the rest of an address is the client's choice


class ConnectionLimit:
    """A number of places, of which one address gets a share.

    >>> places = ConnectionLimit(4, share=0.5)
    >>> [places.take("192.0.2.1"), places.take("192.0.2.1"), places.take("192.0.2.1")]
    [None, None, 2]
    >>> [places.take("2001:db8::1"), places.take("192.0.2.2"), places.take("192.0.2.3")]
    [None, None, 4]
    >>> places.free("192.0.2.1")
    >>> places.take("192.0.2.1"), places.taken
    (None, 4)
    """

    def __init__(self, most: int, share: float) -> None:
        self.taken = 0
        self._most = most
        self._most_each = max(1, int(most * share))
        self._by_site: Counter[str] = Counter()

    def take(self, address: str) -> int | None:
        """Take a place; returns None, or the limit that is reached."""
        site = site_of(address)
        if self.taken >= self._most:
            return self._most
        if self._by_site[site] >= self._most_each:
            return self._most_each
        self.taken += 1
        self._by_site[site] += 1
        return None

    def free(self, address: str) -> None:
        """Free a place that was taken."""
        site = site_of(address)
        self.taken -= 1
        self._by_site[site] -= 1
        if not self._by_site[site]:
            del self._by_site[site]


def site_of(address: str) -> str:
    """Whom an address belongs to: of IPv6, the first half.

    >>> site_of("2001:db8::1") == site_of("2001:db8::2:3"), site_of("::ffff:192.0.2.1")
    (True, '192.0.2.1')
    """
    try:
        found = ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if isinstance(found, IPv4Address):
        return str(found)
    if found.ipv4_mapped is not None:
        return str(found.ipv4_mapped)
    return str(IPv6Network((found, IPV6_SITE), strict=False))
