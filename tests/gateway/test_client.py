"""The client does the same over the gateway as on Kafka, with asyncio and without."""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any
from uuid import uuid4

import pytest
from hypothesis import given
from hypothesis import strategies as some

from sbic.client import (
    AsyncClient,
    BadLabels,
    Client,
    ClientError,
    NotAllowed,
    Place,
    TimedOut,
    Unreachable,
)
from sbic.client import http as module
from sbic.client.http import ServerEvent, events
from sbic.gateway.config import GatewayConfig
from sbic.gateway.server import serving
from sbic.local.java import free_port
from sbic.project.revision import Given
from tests.gateway import client as gateways

Way = dict[str, Any]


@pytest.fixture(params=["kafka", "http"])
def way(request: pytest.FixtureRequest, gateway: gateways.GatewayClient) -> Way:
    """The arguments of a client of the same pipeline, for either way to it."""
    if request.param == "http":
        return {"address": gateway.url}
    settings = gateway.projects[0]
    return {"address": settings.broker, "project": settings.prefix}


def label(task: str, worker: str, answer: int | None = 1, **more: object) -> dict[str, object]:
    return {"task": task, "worker": worker, "label": answer, **more}


def unique(name: str) -> str:
    return f"{name} {uuid4().hex[:8]}"


async def test_a_label_goes_in_and_its_posterior_comes_out(way: Way) -> None:
    task = unique("a/b?ö")

    def program() -> None:
        with Client(**way) as client:
            assert client.posterior(task) is None
            place = client.send(label(task, "ann"))
            posterior = client.posterior(task, counting=place)
            assert posterior
            assert (posterior["task"], posterior["prediction"], posterior["labels"]) == (task, 1, 1)
            client.posterior(task, counting=client.send(label(task, "ann", None)))
            again = client.posterior(task)
            assert again
            assert again["labels"] == 0

    await asyncio.to_thread(program)


async def test_many_labels_go_in_portions_and_have_their_places_in_order(way: Way) -> None:
    task = unique("many")
    labels = [label(task, f"worker {number}", note="x" * 100) for number in range(1200)]
    async with AsyncClient(**way) as client:
        places = await client.send(iter(labels))
        assert len(set(places)) == len(labels)
        posterior = await client.posterior(task, counting=places)
    assert posterior
    assert posterior["labels"] == len(labels)


async def test_bad_labels_are_refused_with_their_index_and_reason(way: Way) -> None:
    labels = [label("t", "ann"), label("t", ""), label("t", "bob", 2)]
    async with AsyncClient(**way) as client:
        with pytest.raises(BadLabels, match=r"label 1: 'worker' is empty \(and 1 more") as refused:
            await client.send(labels)
        assert [problem.index for problem in refused.value.problems] == [1, 2]
        assert "'label' must be 1, -1, 0 or null, not 2" in refused.value.problems[1].reason
        many = [label("t", f"bob {n}") for n in range(5001)] + labels[2:]
        with pytest.raises(BadLabels, match="label 5001: "):
            await client.send(many)


async def test_a_worker_who_asks_gets_a_task_once(way: Way) -> None:
    tasks, worker = {unique("open") for _ in range(3)}, unique("asks")
    async with AsyncClient(**way) as client:
        for task in tasks:
            await client.posterior(task, counting=await client.send(label(task, "ann")))
        first, second = await client.next_task(worker), await client.next_task(worker)
    assert first.task
    assert second.task
    assert first.task != second.task
    assert first.id != second.id
    assert first.expires_at
    assert first.reason is None


async def test_a_watch_shows_what_changes_from_the_call_on(way: Way) -> None:
    task = unique("watched")

    def program() -> None:
        with Client(**way) as client:
            changes = client.watch()
            client.send(label(task, "ann"))
            assert next(each for each in changes if each["task"] == task)["labels"] == 1

    await asyncio.to_thread(program)


async def test_an_asynchronous_watch_shows_what_changes(way: Way) -> None:
    task = unique("watched")
    async with AsyncClient(**way) as client, client.watching() as changes:
        await client.send(label(task, "ann"))
        async for posterior in changes:
            if posterior["task"] == task:
                assert posterior["labels"] == 1
                break


async def test_threads_share_a_client(way: Way) -> None:
    tasks = [unique("shared") for _ in range(8)]
    with Client(**way) as client:

        def work(task: str) -> Any:
            return client.posterior(task, counting=client.send(label(task, "ann")))

        found = await asyncio.gather(*(asyncio.to_thread(work, task) for task in tasks))
    assert [each["task"] for each in found] == tasks


async def test_a_label_that_is_never_counted_is_not_waited_for_forever(way: Way) -> None:
    async with AsyncClient(**way, timeout=5) as client:
        with pytest.raises(TimedOut, match="were not counted"):
            await client.posterior("t", counting=Place(0, 1 << 40))


async def test_a_closed_client_says_so(way: Way) -> None:
    client = Client(**way)
    client.close()
    client.close()
    with pytest.raises(RuntimeError, match="the client is closed"):
        client.posterior("t")


async def test_without_the_token_nothing_is_answered(gateway: gateways.GatewayClient) -> None:
    settings = gateway.projects[0]
    async with (
        gateways.running_gateway([settings], tokens=(gateways.TOKEN,)) as guarded,
        AsyncClient(guarded.url) as stranger,
        AsyncClient(guarded.url, token=gateways.TOKEN) as client,
    ):
        with pytest.raises(NotAllowed, match="a token is required"):
            await stranger.posterior("t")
        with pytest.raises(NotAllowed, match="a token is required"):
            async for _ in stranger.watch():
                pass
        # a gateway that is not ready yet is asked again
        assert await client.posterior(unique("none")) is None


async def test_labels_wait_for_a_gateway_that_starts(gateway: gateways.GatewayClient) -> None:
    settings, task, port = gateway.projects[0], unique("early"), free_port()
    async with AsyncClient(f"http://127.0.0.1:{port}") as client:
        sending = asyncio.create_task(client.send(label(task, "ann")))
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.5):
                await asyncio.shield(sending)
        async with serving(GatewayConfig(port=port), [Given.of(settings)]):
            posterior = await client.posterior(task, counting=await sending)
    assert posterior
    assert posterior["labels"] == 1


async def test_a_project_that_the_gateway_does_not_serve_is_not_an_unknown_task(
    gateway: gateways.GatewayClient,
) -> None:
    async with AsyncClient(gateway.url, project="other") as client:
        with pytest.raises(ClientError, match="no such project"):
            await client.posterior("t")


@pytest.mark.parametrize("scheme", ["http", "kafka"])
async def test_nobody_at_the_address_is_told_in_one_line(scheme: str) -> None:
    async with AsyncClient(f"{scheme}://127.0.0.1:{free_port()}", timeout=1) as client:
        with pytest.raises(Unreachable) as raised:
            await client.send(label("t", "ann"))
    assert "127.0.0.1" in str(raised.value)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    "make",
    [
        lambda: Client("127.0.0.1:8080"),
        lambda: Client("kafka://127.0.0.1", token="secret"),
        lambda: Client("kafka://127.0.0.1:x"),
    ],
    ids=["no scheme", "a token for Kafka", "no port"],
)
def test_a_bad_address_is_refused_at_once(make: Callable[[], Client]) -> None:
    with pytest.raises(ValueError, match=r"must begin with|leave it out|SBIC_BROKER must be"):
        make()


# Server-sent events are read wherever their chunks end, and whatever their size.


STREAM = b": hello\n\nevent: a\ndata: [1]\n\nevent: b\ndata: {}\n\n: still here\n\nevent: c"


async def in_chunks(stream: bytes, size: int) -> AsyncIterator[bytes]:
    for start in range(0, len(stream), size):
        yield stream[start : start + size]


@given(some.integers(1, len(STREAM)))
async def test_events_are_whole_wherever_chunks_end(size: int) -> None:
    found = [event async for event in events(in_chunks(STREAM, size))]
    assert found == [ServerEvent("a", b"[1]"), ServerEvent("b", b"{}")]


async def test_an_event_may_be_large_but_not_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    large = b"event: a\ndata: " + b"x" * 1_000_000 + b"\n\n"
    (event,) = [event async for event in events(in_chunks(large, 60_000))]
    assert len(event.data) == 1_000_000
    monkeypatch.setattr(module, "MOST_BYTES", 500_000)
    with pytest.raises(ValueError, match="more than 500000 bytes"):
        [event async for event in events(in_chunks(large, 60_000))]
