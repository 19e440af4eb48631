"""Ports on loopback: a free one, whether one is free, and whether Kafka answers on it."""

import socket
import ssl
import struct

HOST = "127.0.0.1"
API_VERSIONS = 18  # the one request that every Kafka answers in every version


def free_port() -> int:
    """A port that nobody uses at the moment."""
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
    """Whether a Kafka on this port takes requests, not only connections; with a context by TLS."""
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
