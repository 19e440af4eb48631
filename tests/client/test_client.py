"""The client does the same over the gateway as on Kafka, with asyncio and without."""

import threading
from typing import Any
from uuid import uuid4

import pytest

from pipeline.broker.ports import free_port
from pipeline.client import (
    AsyncClient,
    BadLabels,
    Client,
    NotAllowed,
    Place,
    TimedOut,
    Unreachable,
)
from tests.client.conftest import Crowd

Way = dict[str, Any]


def label(task: str, worker: str, answer: int | None = 1, **more: object) -> dict[str, object]:
    return {"task": task, "worker": worker, "label": answer, **more}


def unique(name: str) -> str:
    return f"{name} {uuid4().hex[:8]}"


def test_a_label_goes_in_and_its_posterior_comes_out(way: Way) -> None:
    task = unique("a/b?ö")
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


def test_a_worker_who_asks_gets_a_task_once(way: Way) -> None:
    tasks, worker = {unique("open") for _ in range(3)}, unique("asks")
    with Client(**way) as client:
        for task in tasks:
            client.posterior(task, counting=client.send(label(task, "ann")))
        first, second = client.next_task(worker), client.next_task(worker)
    assert first.task
    assert second.task
    assert first.task != second.task
    assert first.id != second.id
    assert first.expires_at
    assert first.reason is None


def test_a_watch_shows_what_changes_from_the_call_on(way: Way) -> None:
    task = unique("watched")
    with Client(**way) as client:
        changes = client.watch()
        client.send(label(task, "ann"))
        assert next(each for each in changes if each["task"] == task)["labels"] == 1


async def test_an_asynchronous_watch_shows_what_changes(way: Way) -> None:
    task = unique("watched")
    async with AsyncClient(**way) as client, client.watching() as changes:
        await client.send(label(task, "ann"))
        async for posterior in changes:
            if posterior["task"] == task:
                assert posterior["labels"] == 1
                break


def test_threads_share_a_client(way: Way) -> None:
    tasks = [unique("shared") for _ in range(8)]
    found: list[Any] = []
    with Client(**way) as client:

        def work(task: str) -> None:
            found.append(client.posterior(task, counting=client.send(label(task, "ann"))))

        threads = [threading.Thread(target=work, args=(task,)) for task in tasks]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert sorted(each["task"] for each in found) == sorted(tasks)


def test_a_label_that_is_never_counted_is_not_waited_for_forever(way: Way) -> None:
    with Client(**way, timeout=1) as client, pytest.raises(TimedOut, match="were not counted"):
        client.posterior("t", counting=Place(0, 1 << 40))


def test_a_closed_client_says_so(way: Way) -> None:
    client = Client(**way)
    client.close()
    client.close()
    with pytest.raises(RuntimeError, match="the client is closed"):
        client.posterior("t")


async def test_the_token_and_the_project_must_be_right(crowd: Crowd) -> None:
    async with AsyncClient(crowd.gateway) as client:
        with pytest.raises(NotAllowed, match="this needs a token"):
            await client.posterior("t")
        with pytest.raises(NotAllowed, match="this needs a token"):
            async for _ in client.watch():
                pass


@pytest.mark.parametrize("scheme", ["http", "kafka"])
def test_nobody_at_the_address_is_told_in_one_line(scheme: str) -> None:
    with (
        Client(f"{scheme}://127.0.0.1:{free_port()}", timeout=1) as client,
        pytest.raises(Unreachable) as raised,
    ):
        client.send(label("t", "ann"))
    assert "127.0.0.1" in str(raised.value)
    assert "\n" not in str(raised.value)
