"""The gateway: labels per second, singly and in arrays, and the time until an assignment comes."""

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from statistics import median
from time import perf_counter
from urllib.error import URLError
from urllib.request import urlopen

from aiohttp import ClientSession
from orjson import dumps
from rich.console import Console
from rich.table import Table

from sbic.commands.crowd import crowd_client
from sbic.kafka.admin import ensure_topics
from sbic.local.broker import EmbeddedBroker
from sbic.local.java import free_port
from sbic.project.settings import Settings
from tests.instances import instance

CLIENTS = 50
ARRAY = 500
SECONDS = 8.0
ROUNDS = 3
WORKERS, TASKS = 2_000, 10_000
ASKED = 200

console = Console()


@contextmanager
def running_gateway(settings: Settings) -> Iterator[tuple[int, int]]:
    """Port and process id of `sbic gateway`, on a core of its own where there are several."""
    port = free_port()
    env = {**os.environ, "SBIC_BROKER": settings.broker, "SBIC_PREFIX": settings.prefix}
    command = [sys.executable, "-m", "sbic", "gateway", "--port", str(port)]
    process = subprocess.Popen([*command, "--rate", "1000000"], env=env, stderr=subprocess.DEVNULL)
    try:
        os.sched_setaffinity(process.pid, {max(os.sched_getaffinity(0))})
        while not is_ready(port):
            time.sleep(0.1)
        yield port, process.pid
    finally:
        process.kill()
        process.wait()


def is_ready(port: int) -> bool:
    """Whether it can be asked."""
    try:
        with urlopen(f"http://127.0.0.1:{port}/readyz") as answer:
            return bool(answer.status == 200)
    except URLError:
        return False


def cpu_seconds(pid: int) -> float:
    """What a process has used."""
    with open(f"/proc/{pid}/stat") as stat:
        user, system = stat.read().rpartition(")")[2].split()[11:13]
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


def labels(count: int) -> list[dict[str, object]]:
    """Labels of a crowd."""
    return [
        {"task": f"t{number * 7 % TASKS}", "worker": f"w{number % WORKERS}", "label": 1}
        for number in range(count)
    ]


def requests_per_second(port: int, pid: int, bodies: Sequence[bytes]) -> tuple[float, float]:
    """Requests answered per second, and per second of the gateway's CPU."""
    arguments = [str(port), "/labels", str(CLIENTS), str(SECONDS)]
    with subprocess.Popen(
        [sys.executable, "-m", "tests.benchmarks.http_load", *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as load:
        assert load.stdin
        assert load.stdout
        load.stdin.write(b"\n".join(bodies))
        load.stdin.close()
        assert load.stdout.readline() == b"begun\n"
        before = cpu_seconds(pid)
        requests, seconds = map(float, load.stdout.readline().split())
        return requests / seconds, requests / (cpu_seconds(pid) - before)


def throughput(broker: EmbeddedBroker) -> None:
    """Labels per second from 50 keep-alive clients, acknowledged by Kafka."""
    table = Table(
        "round",
        "singly",
        "per CPU second",
        f"arrays of {ARRAY}",
        "per CPU second",
        title=f"labels per second through the gateway, {CLIENTS} clients, one core",
    )
    crowd = labels(10_000)
    singly = [dumps(label) for label in crowd]
    arrays = [dumps(crowd[start : start + ARRAY]) for start in range(0, len(crowd), ARRAY)]
    for number in range(1, ROUNDS + 1):
        settings = Settings(broker=broker.url, prefix=f"gateway-{number}")
        asyncio.run(ensure_topics(settings))
        with running_gateway(settings) as (port, pid):
            one = requests_per_second(port, pid, singly)
            many = [ARRAY * rate for rate in requests_per_second(port, pid, arrays)]
        table.add_row(str(number), *(f"{rate:,.0f}" for rate in (*one, *many)))
    console.print(table)


async def milliseconds_to_assignments(settings: Settings, port: int) -> tuple[float, float]:
    """The median of a Kafka client's own, and of the gateway's, asked for in turn."""
    own, through = [], []
    async with crowd_client(settings) as client, ClientSession() as http:
        await client.describe(f"t{number}" for number in range(TASKS))
        await client.ask("first")
        for number in range(ASKED):
            started = perf_counter()
            await client.ask(f"k{number}")
            own.append(perf_counter() - started)
            started = perf_counter()
            body = {"worker": f"h{number}"}
            async with http.post(f"http://127.0.0.1:{port}/next", json=body) as answer:
                assert (await answer.json())["assignments"]
            through.append(perf_counter() - started)
    return 1000 * median(own), 1000 * median(through)


def assignments(broker: EmbeddedBroker) -> None:
    """From a request to its assignment: a Kafka client, and the gateway."""
    table = Table("round", "Kafka client", "POST /next", "ratio", title="ms to an assignment, p50")
    for number in range(1, ROUNDS + 1):
        settings = Settings(broker=broker.url, prefix=f"gateway-next-{number}")
        with instance(broker.url, settings.prefix) as running:
            running.wait_ready(60)
            with running_gateway(settings) as (port, _):
                own, through = asyncio.run(milliseconds_to_assignments(settings, port))
        table.add_row(str(number), f"{own:.1f}", f"{through:.1f}", f"{through / own:.2f}")
    console.print(table)


if __name__ == "__main__":
    with EmbeddedBroker() as kafka:
        throughput(kafka)
        assignments(kafka)
