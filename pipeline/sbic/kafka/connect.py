"""Connects clients to Kafka: options, tokens, and every failure as a message of one line."""

import asyncio
import shlex
import ssl
from collections.abc import AsyncIterator, Coroutine, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from socket import gaierror
from struct import pack, unpack
from typing import Any, Protocol, TypeVar

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.abc import AbstractTokenProvider
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.client import AIOKafkaClient
from aiokafka.conn import AIOKafkaConnection, create_conn
from aiokafka.errors import (
    GroupAuthorizationFailedError,
    IllegalSaslStateError,
    KafkaConnectionError,
    KafkaError,
    KafkaTimeoutError,
    LeaderNotAvailableError,
    NodeNotReadyError,
    NotLeaderForPartitionError,
    SaslAuthenticationFailed,
    TopicAuthorizationFailedError,
    UnsupportedSaslMechanismError,
)
from aiokafka.protocol.admin import SaslHandShakeRequest
from aiokafka.protocol.metadata import MetadataRequest

from sbic.kafka import batches  # noqa: F401  # all consumers of aiokafka read with it
from sbic.kafka.errors import ClusterError, Denied, KafkaUnreachable, MissingRights, Refused
from sbic.kafka.rights import Operation, Right
from sbic.project.security import TOKEN_COMMAND, TOKEN_FILE, Security
from sbic.project.settings import Settings

COMMAND_SECONDS = 10
ANSWER_SECONDS = 30  # that a request of administration may take
MAX_BATCH_BYTES = 1 << 20  # the default limit of brokers; a larger record gets its own batch


class NoToken(KafkaError):  # type: ignore[misc]
    """There is no token to send; clients retry, as they do when a broker is unreachable."""


class TokenProvider(AbstractTokenProvider):  # type: ignore[misc]
    """Gives aiokafka the current token; the file or the command has to keep it fresh."""

    def __init__(self, security: Security) -> None:
        self._security = security

    async def token(self) -> str:
        """Return the token; raise `NoToken` with the reason, and never with the token itself."""
        command = self._security.token_command
        text = await (self._printed(command) if command else asyncio.to_thread(self._read))
        token = text.strip()
        source = TOKEN_COMMAND if command else TOKEN_FILE
        if not token:
            raise NoToken(f"{source} gives no token: it is empty")
        if not token.isascii() or not token.isprintable() or " " in token:
            raise NoToken(f"{source} must give a token and nothing else")
        return token

    def _read(self) -> str:
        path = self._security.token_file
        assert path is not None
        try:
            return Path(path).read_text()
        except (OSError, UnicodeDecodeError) as error:
            why = error.strerror if isinstance(error, OSError) else "it is not text"
            raise NoToken(f"{TOKEN_FILE}: cannot read {path}: {why}") from None

    async def _printed(self, command: str) -> str:
        """Return what the command prints; its error output may contain a secret and is dropped."""
        try:
            process = await asyncio.create_subprocess_exec(
                *shlex.split(command),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.DEVNULL,
            )
        except (OSError, ValueError) as error:
            why = error.strerror if isinstance(error, OSError) else str(error)
            raise NoToken(f"{TOKEN_COMMAND} cannot be run: {why}") from None
        try:
            async with asyncio.timeout(COMMAND_SECONDS):
                printed, _ = await process.communicate()
        except TimeoutError:
            raise NoToken(f"{TOKEN_COMMAND} printed no token in {COMMAND_SECONDS} s") from None
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
        if process.returncode:
            raise NoToken(f"{TOKEN_COMMAND} ended with status {process.returncode}")
        return printed.decode(errors="replace")


# The options of every Kafka client: where the brokers are, and how to connect to them.


def client_options(settings: Settings) -> dict[str, Any]:
    """Return the options common to aiokafka's consumers, producers and admin clients.

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


def new_consumer(settings: Settings, **options: Any) -> AIOKafkaConsumer:
    """Return a consumer that commits nothing by itself, and begins at the start of a partition."""
    options = {"enable_auto_commit": False, "auto_offset_reset": "earliest"} | options
    return AIOKafkaConsumer(**client_options(settings), **options)


def new_producer(settings: Settings, **options: Any) -> AIOKafkaProducer:
    """Return an idempotent producer of whole batches, for a `Writer`."""
    return AIOKafkaProducer(
        **client_options(settings),
        enable_idempotence=True,
        acks="all",
        max_batch_size=MAX_BATCH_BYTES,
        **options,
    )


class RequestClient:
    """A client for single requests, with the `start` and `stop` of consumers and producers."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.client = AIOKafkaClient(**client_options(settings), client_id="sbic-requests")

    async def start(self) -> None:
        await self.client.bootstrap()

    async def stop(self) -> None:
        await self.client.close()


class AdminClient:
    """aiokafka's admin client, with the `start` and `stop` of consumers and producers.

    Most requests are made in a block of `answering`.
    """

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.client = AIOKafkaAdminClient(
            **client_options(settings), request_timeout_ms=ANSWER_SECONDS * 1000
        )

    async def start(self) -> None:
        await self.client.start()

    async def stop(self) -> None:
        await self.client.close()

    @asynccontextmanager
    async def answering(self) -> AsyncIterator[AIOKafkaAdminClient]:
        """Lend the client for some requests; every error of Kafka becomes a `ClusterError`."""
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                yield self.client
        except TimeoutError:
            raise KafkaUnreachable(self.settings) from None
        except KafkaError as error:
            raise await explained(error, self.settings, Operation.DESCRIBE) from error


# Finds out why no client can connect: aiokafka 0.14 reports only that no server was usable.
#
# The probe connects to each server step by step, as a client does. The error names the step that
# failed and what to change.


STEP_SECONDS = 5
API_VERSIONS = 18  # the request that every Kafka answers, even before authentication
EXPIRED, NOT_YET_VALID, OTHER_NAME, OTHER_ADDRESS = 10, 9, 62, 64  # OpenSSL's verify codes


async def why_unreachable(settings: Settings) -> ClusterError:
    """Return what is wrong with the connection; `KafkaUnreachable` if no server answers at all."""
    advertised: dict[str, str] = {}
    try:
        for server in settings.bootstrap_servers:
            advertised |= dict.fromkeys(await Probe(settings, server).run(), server)
        for server, by in advertised.items():
            if server not in settings.bootstrap_servers and not await Probe(settings, server).run():
                return Denied(
                    f"Kafka at {by} sends clients to {server}, where no Kafka answers: its "
                    f"operator has to set advertised.listeners to an address reachable from here"
                )
    except Denied as error:
        return error
    return KafkaUnreachable(settings)


class Probe:
    """One connection to one server."""

    def __init__(self, settings: Settings, server: str) -> None:
        self.settings = settings
        self.security: Security = settings.security
        self.at = f"Kafka at {server}"
        host, _, port = server.rpartition(":")
        self.host, self.port = host.strip("[]"), int(port)

    async def run(self) -> list[str]:
        """Connect as a client does; returns the addresses of all brokers, or none if silent.

        Raises `Denied` with what is wrong.
        """
        try:
            await self._tls()
            return await self._sasl()
        except (OSError, TimeoutError, KafkaError):
            return []

    async def _tls(self) -> None:
        """Connect, with TLS if it is set, and send a first request."""
        try:
            await self._first_answer(self.security.context if self.security.has_tls else None)
        except gaierror:
            raise Denied(f"{self.at}: there is no host of that name; check SBIC_BROKER") from None
        except ssl.SSLCertVerificationError as error:
            raise Denied(self._bad_certificate(error)) from None
        except (ssl.SSLError, ConnectionResetError, asyncio.IncompleteReadError) as error:
            raise Denied(await self._no_common_protocol(error)) from None

    async def _first_answer(self, context: ssl.SSLContext | None) -> None:
        async with asyncio.timeout(STEP_SECONDS):
            reader, writer = await asyncio.open_connection(self.host, self.port, ssl=context)
            try:
                header = pack(">hhih", API_VERSIONS, 0, 1, -1)
                writer.write(pack(">i", len(header)) + header)
                size, correlation_id = unpack(">ii", await reader.readexactly(8))
                if correlation_id != 1 or size > 1 << 20:
                    raise ConnectionResetError
            finally:
                writer.close()
                with suppress(OSError):
                    await writer.wait_closed()

    def _bad_certificate(self, error: ssl.SSLCertVerificationError) -> str:
        if error.verify_code == EXPIRED:
            return f"{self.at} has a certificate that has expired: its operator has to renew it"
        if error.verify_code == NOT_YET_VALID:
            return f"{self.at} has a certificate that is not valid yet: is the clock here right?"
        if error.verify_code in (OTHER_NAME, OTHER_ADDRESS):
            return (
                f"{self.at} has a certificate for another host: set SBIC_BROKER to the name that "
                f"the certificate is for ({error.verify_message.rstrip('.')})"
            )
        trusted = self.security.cafile or "those of this machine"
        return (
            f"{self.at} has a certificate of a CA that is not trusted here ({trusted}): set "
            f"SBIC_SSL_CAFILE to the certificate of its CA ({error.verify_message})"
        )

    async def _no_common_protocol(self, error: Exception) -> str:
        """Why the server closed the connection, or answered in another protocol."""
        protocol, speaks_tls = self.security.protocol, await self._speaks_tls()
        if speaks_tls and not self.security.has_tls:
            needed = "SASL_SSL" if self.security.has_sasl else "SSL or SASL_SSL"
            return f"{self.at} speaks TLS only: set SBIC_SECURITY_PROTOCOL to {needed}"
        if not speaks_tls and self.security.has_tls:
            other = "SASL_PLAINTEXT" if self.security.has_sasl else "PLAINTEXT"
            return (
                f"{self.at} does not speak TLS, and SBIC_SECURITY_PROTOCOL is {protocol}: set "
                f"SBIC_BROKER to its port for TLS (or, within a network that you trust, "
                f"SBIC_SECURITY_PROTOCOL to {other})"
            )
        if speaks_tls and self.security.certfile is None:
            return (
                f"{self.at} requires a client certificate: set SBIC_SSL_CERTFILE and "
                f"SBIC_SSL_KEYFILE"
            )
        if speaks_tls:
            return f"{self.at} does not accept the certificate in SBIC_SSL_CERTFILE"
        return f"{self.at} closes the connection: is it Kafka? ({type(error).__name__})"

    async def _speaks_tls(self) -> bool:
        """Whether the server answers in TLS, with any certificate."""
        try:
            async with asyncio.timeout(STEP_SECONDS):
                context = ssl.create_default_context()
                _, writer = await asyncio.open_connection(self.host, self.port, ssl=context)
                writer.close()
                await writer.wait_closed()
        except ssl.SSLCertVerificationError:
            return True
        except (OSError, TimeoutError):
            return False
        return True

    async def _sasl(self) -> list[str]:
        """Authenticate, and request the addresses of the brokers."""
        security = self.security
        try:
            connection = await self._connect(client_options(self.settings))
        except NoToken as error:
            raise Denied(str(error)) from None
        except UnsupportedSaslMechanismError:
            accepted = ", ".join(await self._mechanisms())
            raise Denied(
                f"{self.at} does not accept {security.mechanism}: set SBIC_SASL_MECHANISM to one "
                f"that it accepts ({accepted})"
            ) from None
        except IllegalSaslStateError:
            other = "SSL" if security.has_tls else "PLAINTEXT"
            raise Denied(
                f"{self.at} does not use SASL: set SBIC_SECURITY_PROTOCOL to {other}, or "
                f"SBIC_BROKER to its port for SASL"
            ) from None
        except (SaslAuthenticationFailed, KafkaConnectionError, TimeoutError):
            # it answered before, so the credentials are wrong: some brokers just close
            raise Denied(self._wrong_password()) from None
        except (ValueError, AssertionError, KeyError):  # raised by aiokafka's SCRAM
            raise Denied(
                f"{self.at} does not know the password of {security.username} itself: it is not "
                f"the Kafka that it claims to be"
            ) from None
        return await self._ask(connection)

    async def _connect(self, options: dict[str, Any]) -> AIOKafkaConnection:
        del options["bootstrap_servers"]
        milliseconds = STEP_SECONDS * 1000
        return await create_conn(self.host, self.port, request_timeout_ms=milliseconds, **options)

    async def _mechanisms(self) -> list[str]:
        """Return the SASL mechanisms that the server accepts."""
        security = self.security
        options = client_options(self.settings) | {
            "security_protocol": "SSL" if security.has_tls else "PLAINTEXT"
        }
        connection = await self._connect(options)
        answer = await connection.send(SaslHandShakeRequest(security.mechanism))
        await connection.close()
        return list(answer.enabled_mechanisms)

    def _wrong_password(self) -> str:
        if self.security.mechanism == "OAUTHBEARER":
            return f"{self.at} refuses the token of SBIC_SASL_TOKEN_FILE or _COMMAND"
        return (
            f"{self.at} refuses user {self.security.username} or the password "
            f"({self.security.mechanism}): check SBIC_SASL_USERNAME and SBIC_SASL_PASSWORD "
            f"(or _FILE)"
        )

    async def _ask(self, connection: AIOKafkaConnection) -> list[str]:
        """Send a first request: a listener with SASL closes the connection only then."""
        try:
            answer = await connection.send(MetadataRequest([]))
            if not answer.brokers:  # aiokafka 0.14 continues with a rejected token
                raise Denied(self._wrong_password())
            return [f"{host}:{port}" for _, host, port, *_ in answer.brokers]
        except KafkaConnectionError:
            if self.security.has_sasl:
                raise
            other = "SASL_SSL" if self.security.has_tls else "SASL_PLAINTEXT"
            raise Denied(
                f"{self.at} requires a user and a password: set SBIC_SECURITY_PROTOCOL to {other}, "
                f"and SBIC_SASL_MECHANISM, SBIC_SASL_USERNAME and SBIC_SASL_PASSWORD"
            ) from None
        finally:
            await connection.close()


CONNECT_SECONDS = 5
STOP_SECONDS = 2
GONE = (KafkaTimeoutError, LeaderNotAvailableError, NotLeaderForPartitionError)
NOT_CONNECTED = (KafkaConnectionError, NodeNotReadyError)
# what aiokafka's SCRAM raises when the server does not prove that it knows the password
IMPOSTOR = (ValueError, AssertionError, KeyError)


OPERATIONS: Mapping[type, Operation] = {
    AIOKafkaProducer: Operation.WRITE,
    AIOKafkaConsumer: Operation.READ,
}
"""The operation that each kind of client lacks when Kafka denies authorization."""


class Startable(Protocol):
    """A client that is started and stopped, as aiokafka's are."""

    async def start(self) -> Any:
        """Connect."""

    async def stop(self) -> Any:
        """Disconnect."""


S = TypeVar("S", bound=Startable)


@asynccontextmanager
async def connected(client: S, settings: Settings) -> AsyncIterator[S]:
    """Start a client, stop it at the end, and translate the Kafka errors raised meanwhile."""
    operation = OPERATIONS.get(type(client), Operation.DESCRIBE)
    try:
        await start(client, settings)
        yield client
    except NOT_CONNECTED as error:
        raise await explained(error, settings, operation) from None
    except KafkaError as error:
        raise await explained(error, settings, operation) from error
    finally:
        await stop(client)


async def until_first(*works: Coroutine[Any, Any, None]) -> None:
    """Run them until one of them ends, and cancel the others; raise what it raised."""
    tasks = [asyncio.create_task(work) for work in works]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def explained(error: KafkaError, settings: Settings, operation: Operation) -> ClusterError:
    """Return a Kafka error as a `ClusterError`, with the cause if there is no connection."""
    if isinstance(error, NOT_CONNECTED):
        return await why_unreachable(settings)
    return in_our_words(error, settings, operation)


async def stop(client: Startable) -> None:
    """Stop a client, even when Kafka is gone.

    In that case aiokafka 0.14's producer waits forever to flush. Its consumer raises the
    cancellation of one of its own tasks as if the caller had been cancelled, and swallows that of
    the caller. Only a new request is one of the caller: Python 3.11 leaves that of a task group
    which failed.
    """
    task = asyncio.current_task()
    requests = task.cancelling() if task else 0
    with suppress(TimeoutError, asyncio.CancelledError):
        async with asyncio.timeout(STOP_SECONDS):
            await client.stop()
    if task and task.cancelling() > requests:
        raise asyncio.CancelledError


async def start(client: Startable, settings: Settings) -> None:
    """Start a client; on failure raise a `ClusterError` that names the cause.

    aiokafka 0.14 leaves a connection open if it is cancelled while connecting. When this is
    cancelled, the client therefore gets some time to connect; the caller then stops it.
    """
    starting = asyncio.create_task(client.start())
    try:
        async with asyncio.timeout(CONNECT_SECONDS):
            await asyncio.shield(starting)
    except asyncio.CancelledError:
        await asyncio.wait([starting], timeout=STOP_SECONDS)
        raise
    except (TimeoutError, *IMPOSTOR):
        raise await why_unreachable(settings) from None
    finally:
        starting.cancel()
        await asyncio.gather(starting, return_exceptions=True)


def in_our_words(error: KafkaError, settings: Settings, operation: Operation) -> ClusterError:
    """Return a Kafka error as a `ClusterError`; `operation` is what the client was doing."""
    at = f"Kafka at {', '.join(settings.bootstrap_servers)}"
    if isinstance(error, GONE):
        return Refused(f"{at} no longer answers")
    if isinstance(error, GroupAuthorizationFailedError):
        return MissingRights(settings, [Right(operation, "group")])
    if isinstance(error, TopicAuthorizationFailedError):
        names = error.args[0] if error.args else ()
        topics = [names] if isinstance(names, str) else sorted(names)
        if topics:
            prefix = f"{settings.prefix}."
            rights = [Right(operation, "topic", name.removeprefix(prefix)) for name in topics]
            return MissingRights(settings, rights)
    return Refused(f"{at} says: {error}")
