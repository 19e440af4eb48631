"""A load of HTTP requests at next to no cost: keep-alive connections that send the same again.

    python -m tests.benchmarks.http_load PORT PATH CONNECTIONS SECONDS < BODIES

Bodies are lines; each connection sends one after the other. Prints requests and seconds.
"""

import asyncio
import sys
from itertools import cycle
from time import perf_counter

HEAD = (
    b"POST %b HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
    b"Content-Length: %d\r\n\r\n"
)


class Connection(asyncio.Protocol):
    """Sends a request as soon as the one before is answered."""

    def __init__(self, requests: "cycle[bytes]", counts: list[int]) -> None:
        self.requests = requests
        self.counts = counts
        self.received = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport: asyncio.Transport = transport  # type: ignore[assignment]
        self.transport.write(next(self.requests))

    def data_received(self, data: bytes) -> None:
        self.received += data
        head, found, body = self.received.partition(b"\r\n\r\n")
        if not found:
            return
        size = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
        if len(body) < size:
            return
        assert head.startswith(b"HTTP/1.1 200"), self.received[:1000]
        self.counts[0] += 1
        self.received = body[size:]
        self.transport.write(next(self.requests))


async def load(port: int, path: bytes, connections: int, seconds: float) -> None:
    bodies = sys.stdin.buffer.read().splitlines()
    requests = cycle([HEAD % (path, len(body)) + body for body in bodies])
    counts = [0]
    loop = asyncio.get_running_loop()
    for _ in range(connections):
        await loop.create_connection(lambda: Connection(requests, counts), "127.0.0.1", port)
    await asyncio.sleep(seconds / 5)  # the warm-up
    before, started = counts[0], perf_counter()
    print("begun", flush=True)
    await asyncio.sleep(seconds)
    print(counts[0] - before, perf_counter() - started, flush=True)


if __name__ == "__main__":
    _, port, path, connections, seconds = sys.argv
    asyncio.run(load(int(port), path.encode(), int(connections), float(seconds)))
