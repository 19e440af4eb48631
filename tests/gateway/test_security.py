"""Which requests are refused; that needs no Kafka."""

import asyncio
import logging
import os
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import pytest_asyncio

from sbic.gateway.config import GatewayCannotStart, GatewayConfig
from sbic.local.java import free_port
from sbic.project.settings import Settings
from tests.gateway.client import GatewayClient, running_gateway

OLD, NEW = "the-token-of-yesterday", "the-token-of-tomorrow"
PARTNER = "https://label.example.org"
NO_KAFKA = Settings(broker="kafka://127.0.0.1:1")


@pytest_asyncio.fixture(scope="module")
async def open_one() -> AsyncIterator[GatewayClient]:
    """A gateway without a token."""
    async with running_gateway([NO_KAFKA], cors=(PARTNER,)) as client:
        yield client


@pytest_asyncio.fixture(scope="module")
async def closed_one() -> AsyncIterator[GatewayClient]:
    """A gateway with two tokens."""
    async with running_gateway([NO_KAFKA], tokens=(OLD, NEW), connections=20) as client:
        yield client


@pytest.mark.parametrize("token", [OLD, NEW])
async def test_each_token_opens(closed_one: GatewayClient, token: str) -> None:
    answer = await closed_one.get("/projects", Authorization=f"Bearer {token}")
    assert answer.status == 200


@pytest.mark.parametrize(
    "given",
    ["", "Bearer", "Bearer ", f"Basic {OLD}", f"Bearer {OLD}x", f"Bearer {OLD[:-1]}", "Bearer ü"],
)
@pytest.mark.parametrize("path", ["/projects", "/metrics", "/status", "/openapi.json", "/nothing"])
async def test_nothing_else_opens(closed_one: GatewayClient, given: str, path: str) -> None:
    answer = await closed_one.get(path, Authorization=given)
    assert answer.status == (404 if path == "/nothing" else 401)
    assert path == "/nothing" or answer.headers["WWW-Authenticate"] == 'Bearer realm="sbic"'
    assert OLD not in str(answer)


async def test_the_page_and_supervisors_need_no_token(closed_one: GatewayClient) -> None:
    assert (await closed_one.get("/")).status == 200
    assert (await closed_one.get("/healthz")).status == 200
    assert (await closed_one.get("/readyz")).status == 503


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example", "[", "10.0.0.1:8080"])
async def test_a_name_that_leads_here_is_not_ours(open_one: GatewayClient, host: str) -> None:
    assert (await open_one.get("/projects", Host=host)).status == 403


@pytest.mark.parametrize("host", ["localhost", "localhost:99", "127.0.0.1", "[::1]:8080"])
async def test_the_names_of_the_loopback_are_ours(open_one: GatewayClient, host: str) -> None:
    assert (await open_one.get("/projects", Host=host)).status == 200


async def test_pages_of_other_origins_may_not_ask(open_one: GatewayClient) -> None:
    label = {"task": "t1", "worker": "ann", "label": 1}
    for origin in ("https://evil.example", "null", "http://127.0.0.1:1", "http://["):
        assert (await open_one.post("/labels", label, Origin=origin)).status == 403
        answer = await open_one.get("/projects", Origin=origin)
        assert answer.status == 403
        assert "Access-Control-Allow-Origin" not in answer.headers
    assert (await open_one.get("/projects", Origin=open_one.url)).status == 200


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
async def test_a_page_of_another_site_may_not_ask_without_an_origin_either(
    open_one: GatewayClient, site: str
) -> None:
    foreign = {"Sec-Fetch-Site": site, "Sec-Fetch-Mode": "no-cors"}
    for path in ("/projects", "/events"):
        assert (await open_one.ask("GET", path, None, foreign)).status == 403
    link = {"Sec-Fetch-Site": site, "Sec-Fetch-Mode": "navigate"}
    assert (await open_one.ask("GET", "/", None, link)).status == 200
    assert (await open_one.ask("GET", "/events", None, link)).status == 403
    for own in ("same-origin", "none"):
        headers = {"Sec-Fetch-Site": own, "Sec-Fetch-Mode": "cors"}
        assert (await open_one.ask("GET", "/projects", None, headers)).status == 200


@pytest.mark.parametrize("length", [(1 << 20) + 1, 10**15])
async def test_a_body_that_is_too_large_is_refused_before_it_comes(
    open_one: GatewayClient, length: int
) -> None:
    address = urlsplit(open_one.url)
    reader, writer = await asyncio.open_connection(address.hostname, address.port)
    head = "POST /labels HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    writer.write(f"{head}Content-Length: {length}\r\n\r\n".encode())
    async with asyncio.timeout(5):
        answer = await reader.readline()
    writer.close()
    assert answer.startswith(b"HTTP/1.1 413 ")


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        (f"Content-Length: {10**15}", b"HTTP/1.1 413 "),
        ("Content-Length: 1\r\nOrigin: http://evil.example", b"HTTP/1.1 403 "),
        ("Content-Length: 1\r\nContent-Encoding: gzip", b"HTTP/1.1 415 "),
    ],
)
async def test_nobody_is_invited_to_send_a_body_that_is_refused(
    gateway: GatewayClient, headers: str, expected: bytes
) -> None:
    address = urlsplit(gateway.url)
    reader, writer = await asyncio.open_connection(address.hostname, address.port)
    head = "POST /labels HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    writer.write(f"{head}Expect: 100-continue\r\n{headers}\r\n\r\n".encode())
    async with asyncio.timeout(30):
        answer = await reader.readline()
    writer.close()
    assert answer.startswith(expected)


async def test_who_waits_before_sending_a_body_is_invited(gateway: GatewayClient) -> None:
    address = urlsplit(gateway.url)
    reader, writer = await asyncio.open_connection(address.hostname, address.port)
    body = b'{"task": "t1", "worker": "ann", "label": 1}'
    head = "POST /labels HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    writer.write(f"{head}Expect: 100-continue\r\nContent-Length: {len(body)}\r\n\r\n".encode())
    async with asyncio.timeout(60):
        assert await reader.readline() == b"HTTP/1.1 100 Continue\r\n"
        assert await reader.readline() == b"\r\n"
        writer.write(body)
        assert await reader.readline() == b"HTTP/1.1 200 OK\r\n"
    writer.close()


async def test_a_page_of_an_origin_that_is_named_may(open_one: GatewayClient) -> None:
    asked = {"Origin": PARTNER, "Access-Control-Request-Method": "POST"}
    answer = await open_one.ask("OPTIONS", "/labels", None, asked)
    assert answer.status == 204
    assert answer.headers["Access-Control-Allow-Origin"] == PARTNER
    answer = await open_one.get("/projects", Origin=PARTNER)
    assert (answer.status, answer.headers["Access-Control-Allow-Origin"]) == (200, PARTNER)
    asked["Origin"] = "https://evil.example"
    answer = await open_one.ask("OPTIONS", "/labels", None, asked)
    assert (answer.status, "Access-Control-Allow-Origin" in answer.headers) == (403, False)


async def test_every_answer_has_the_headers_that_protect_a_browser(open_one: GatewayClient) -> None:
    for path in ("/", "/projects", "/nothing"):
        headers = (await open_one.get(path)).headers
        assert "default-src 'self'" in headers["Content-Security-Policy"]
        assert "frame-ancestors 'none'" in headers["Content-Security-Policy"]
        assert headers["X-Content-Type-Options"] == "nosniff"
        assert headers["Referrer-Policy"] == "no-referrer"


async def test_too_many_requests_of_a_token_are_told_to_wait() -> None:
    async with running_gateway([NO_KAFKA], tokens=(OLD, NEW), rate=1.0) as client:
        old, new = (f"Bearer {token}" for token in (OLD, NEW))
        asking = (client.get("/projects", Authorization=old) for _ in range(20))
        answers = await asyncio.gather(*asking)
        refused = [answer for answer in answers if answer.status == 429]
        assert refused
        assert all(int(answer.headers["Retry-After"]) >= 1 for answer in refused)
        assert (await client.get("/projects", Authorization=new)).status == 200


async def test_connections_beyond_the_limit_are_closed_and_others_served(
    closed_one: GatewayClient,
) -> None:
    address = urlsplit(closed_one.url)
    idle = []
    for _ in range(40):
        idle.append(await asyncio.open_connection(address.hostname, address.port))

    async def end(reader: asyncio.StreamReader) -> None:
        with suppress(ConnectionResetError):
            assert await reader.read(1) == b""

    ends = {asyncio.create_task(end(reader)) for reader, _ in idle}
    async with asyncio.timeout(60):
        while sum(each.done() for each in ends) < 20:  # noqa: ASYNC110  # no event to await
            await asyncio.sleep(0.02)
    _, still_open = await asyncio.wait(ends, timeout=0.5)
    assert still_open
    for _, writer in idle:
        writer.close()
        with suppress(ConnectionResetError):
            await writer.wait_closed()
    await asyncio.gather(*ends)
    async with asyncio.timeout(60):
        while True:
            with suppress(OSError):
                if (await closed_one.get("/healthz")).status == 200:
                    break
            await asyncio.sleep(0.05)


async def test_one_address_does_not_get_all_connections() -> None:
    async with running_gateway(
        [NO_KAFKA], tokens=(OLD,), host="0.0.0.0", connections=8, address_share=0.5
    ) as client:
        port = urlsplit(client.url).port
        idle = [await asyncio.open_connection("127.0.0.1", port) for _ in range(8)]
        async with asyncio.timeout(60):
            reader, writer = await asyncio.open_connection(
                "127.0.0.1", port, local_addr=("127.0.0.2", 0)
            )
            writer.write(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
            assert (await reader.readline()).startswith(b"HTTP/1.1 200")
        for _, each in [*idle, (reader, writer)]:
            each.close()


async def test_headers_without_an_end_are_cut(open_one: GatewayClient) -> None:
    address = urlsplit(open_one.url)
    reader, writer = await asyncio.open_connection(address.hostname, address.port)
    writer.write(b"GET /projects HTTP/1.1\r\nHost: localhost\r\nX: " + b"x" * 100_000)
    async with asyncio.timeout(60):
        answer = await reader.read()
    assert answer.startswith((b"HTTP/1.0 400", b"HTTP/1.1 400"))
    writer.close()


MALFORMED = (
    b"GET /projects HTTP/1.1\r\nHost: localhost\r\nbad header\r\n\r\n",
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n",
    b"GET /projects HTTP/1.1\r\nHost: localhost\r\nContent-Length: nine\r\n\r\n",
)


async def test_malformed_requests_are_counted_and_cost_one_line_of_the_log(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logging.getLogger("sbic"), "disabled", False)  # other tests set up logging
    caplog.set_level(logging.INFO, "sbic")
    async with running_gateway([NO_KAFKA]) as client:
        caplog.clear()
        for request in 3 * MALFORMED:
            assert (await sent(client, request)).startswith((b"HTTP/1.0 400", b"HTTP/1.1 400"))
        metrics = (await client.get("/metrics")).json.decode()
    assert "sbic_gateway_malformed_requests_total 9.0" in metrics
    logged = [record for record in caplog.records if not record.name.startswith("aiokafka")]
    lines = [record.getMessage() for record in logged if "malformed" in record.getMessage()]
    assert len(lines) == 1
    assert not any(record.exc_info for record in logged)


async def sent(client: GatewayClient, request: bytes) -> bytes:
    """What a gateway answers to these bytes, until it closes the connection."""
    address = urlsplit(client.url)
    reader, writer = await asyncio.open_connection(address.hostname, address.port)
    writer.write(request)
    async with asyncio.timeout(60):
        answer = await reader.read()
    writer.close()
    return answer


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "gateway.example"])
def test_off_the_loopback_there_must_be_a_token(host: str) -> None:
    with pytest.raises(GatewayCannotStart, match="SBIC_GATEWAY_TOKEN"):
        GatewayConfig(host=host)
    assert GatewayConfig(host=host, tokens=(OLD,)).tokens == (OLD,)


def test_a_short_token_is_refused_without_telling_it() -> None:
    with pytest.raises(GatewayCannotStart) as refused:
        GatewayConfig(tokens=("hunter2",))
    assert "hunter2" not in str(refused.value)


def run(*arguments: str, **env: str) -> "subprocess.CompletedProcess[str]":
    inherited = {name: value for name, value in os.environ.items() if name[:5] != "SBIC_"}
    return subprocess.run(
        [sys.executable, "-m", "sbic", "gateway", *arguments],
        env=inherited | env,
        capture_output=True,
        text=True,
        timeout=60,
    )


def test_the_command_refuses_in_one_line(tmp_path: Path) -> None:
    ended = run("--host", "0.0.0.0", "--port", str(free_port()))
    assert ended.returncode == 1
    assert len(ended.stderr.splitlines()) == 1
    assert "SBIC_GATEWAY_TOKEN" in ended.stderr
    ended = run(SBIC_GATEWAY_TOKEN_FILE=str(tmp_path / "none"))
    assert ended.returncode == 2
    assert "SBIC_GATEWAY_TOKEN_FILE" in ended.stderr
    assert len(ended.stderr.splitlines()) == 1


async def test_a_body_that_does_not_come_is_not_waited_for(
    gateway: GatewayClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sbic.gateway.body.BODY_SECONDS", 0.2)
    host, port = gateway.url.removeprefix("http://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    head = f"POST /labels HTTP/1.1\r\nHost: {host}:{port}\r\nContent-Type: application/json\r\n"
    writer.write(f"{head}Content-Length: 100\r\n\r\n{{".encode())
    async with asyncio.timeout(30):
        answered = await reader.read()  # until the gateway closes the connection
    writer.close()
    assert answered.startswith(b"HTTP/1.1 408 ")
    assert b"the body took too long" in answered
