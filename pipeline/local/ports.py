"""Ports on loopback: finds a free one, and checks whether one is free or answers as Kafka."""

import socket
import ssl
import struct

HOST = "127.0.0.1"
API_VERSIONS = 18  # the request that every version of Kafka answers


def free_port() -> int:
    """A port that is free now."""
    with socket.create_server((HOST, 0)) as server:
        port: int = server.getsockname()[1]
        return port


def is_free(port: int) -> bool:
    """Whether a server could use the port."""
    try:
        socket.create_server((HOST, port)).close()
    except OSError:
        return False
    return True


def kafka_answers(port: int, context: ssl.SSLContext | None = None, timeout: float = 1.0) -> bool:
    """Whether a Kafka on this port answers requests, over TLS if there is a context."""
    header = struct.pack(">hhih", API_VERSIONS, 0, 1, -1)
    try:
        with socket.create_connection((HOST, port), timeout) as plain:
            connection = context.wrap_socket(plain, server_hostname=HOST) if context else plain
            with connection:
                connection.sendall(struct.pack(">i", len(header)) + header)
                reply = connection.recv(10)
    except OSError:
        return False
    return len(reply) == 10 and struct.unpack(">ih", reply[4:]) == (1, 0)
