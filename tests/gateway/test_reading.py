"""What can be asked for agrees with the topics, page by page."""

import asyncio
from contextlib import AsyncExitStack
from dataclasses import dataclass
from urllib.parse import quote
from uuid import uuid4

import numpy as np
import pytest
from jsonschema import Draft202012Validator
from openapi_spec_validator import validate
from orjson import dumps, loads

from sbic.gateway import session
from sbic.gateway.access import GatewayMetrics
from sbic.gateway.config import GatewayConfig
from sbic.gateway.server import subjects
from sbic.gateway.view import Latency, LiveRanking, TaskView
from sbic.kafka.writer import At, Writer
from sbic.project.revision import Given
from sbic.project.settings import Settings
from sbic.status.tallies import TaskTally
from sbic.wire.partitions import Row
from tests.agents.kafka import ProjectOnBroker, until
from tests.gateway.client import GatewayClient, HttpAnswer, running_gateway
from tests.records.made import encode_posterior, posterior_of
from tests.test_schemas import schema

HOSTILE = "<script>alert(1)</script>/../\"'\\ ü?#%2F"


async def give(
    gateway: GatewayClient, tasks: int, workers: int, project: str, said: object
) -> list[str]:
    """Labels of new workers on new tasks; their posteriors are read on return."""
    names = [f"t-{uuid4().hex}" for _ in range(tasks)]
    crowd = [f"w-{uuid4().hex}" for _ in range(workers)]
    labels = [{"task": t, "worker": w, "label": said} for t in names for w in crowd]
    assert (await gateway.post(f"/labels?project={project}", labels)).status == 200

    def is_counted(answer: HttpAnswer) -> bool:
        return answer.status == 200 and answer.json["labels"] == workers

    for name in names:
        await gateway.until(f"/tasks/{name}?project={project}", is_counted)
    return names


async def pages(gateway: GatewayClient, path: str, field: str, name: str) -> list[str]:
    """The ids on all pages."""
    found: list[str] = []
    after = ""
    while True:
        answer = await gateway.get(f"{path}&limit=7{after}")
        assert answer.status == 200, answer.json
        found += [each[name] for each in answer.json[field]]
        if answer.json["next"] is None:
            return found
        after = f"&after={quote(answer.json['next'])}"


async def test_pages_have_every_task_once_in_order(gateway: GatewayClient) -> None:
    project = gateway.projects[1].prefix
    given = await give(gateway, 20, 2, project, "cat")
    path = f"/tasks?project={project}&order="
    for order in ("recent", "confidence", "disputed"):

        async def is_whole(order: str = order) -> bool:  # an order is half a second old
            found = await pages(gateway, f"{path}{order}", "tasks", "task")
            once = len(found) == len(set(found))
            return once and set(given) <= set(found)  # closed ones of other tests: not disputed

        await until(is_whole)
    sure = (await gateway.get(f"{path}confidence&limit=100")).json["tasks"]
    confidences = [task["confidence"] for task in sure]
    assert confidences == sorted(confidences, reverse=True)


async def test_workers_come_by_their_intervals(gateway: GatewayClient) -> None:
    project = gateway.projects[1].prefix
    await give(gateway, 3, 9, project, "dog")
    known = await ProjectOnBroker(gateway.projects[1]).read(f"{project}.workers")
    names = sorted({loads(record.value)["worker"] for record in known})
    path = f"/workers?project={project}&order="
    for order in ("best", "worst", "labels"):

        async def is_whole(order: str = order) -> bool:
            found = await pages(gateway, f"{path}{order}", "workers", "worker")
            return sorted(found) == names

        await until(is_whole)
    best = (await gateway.get(f"{path}best")).json["workers"]
    lows = [worker["interval"][0] for worker in best]
    assert lows == sorted(lows, reverse=True)
    one = await gateway.get(f"/workers/{best[0]['worker']}?project={project}")
    assert one.json["worker"] == best[0]["worker"]


async def test_the_status_agrees_with_the_topics(gateway: GatewayClient) -> None:
    project = gateway.projects[1].prefix
    await give(gateway, 2, 3, project, "bird")
    posteriors = await ProjectOnBroker(gateway.projects[1]).posteriors()
    counted = sum(posterior["labels"] for posterior in posteriors.values())
    path = f"/status?project={project}"
    answer = await gateway.until(path, lambda answer: answer.json["labels"]["counted"] == counted)
    Draft202012Validator(schema("status")).validate(answer.json)
    assert answer.json["tasks"]["known"] == len(posteriors)
    bins = (await gateway.get(f"/confidence?project={project}")).json
    assert sum(bins["bins"]) == sum(posterior["labels"] > 0 for posterior in posteriors.values())
    assert bins["latency"]["median_ms"] > 0
    path = f"/history?project={project}"
    points = (await gateway.until(path, lambda answer: bool(answer.json["points"]))).json["points"]
    assert points[-1]["labels"] == counted


async def test_hostile_ids_come_back_as_they_are(gateway: GatewayClient) -> None:
    label = {"task": HOSTILE, "worker": HOSTILE, "label": 1}
    assert (await gateway.post("/labels", label)).status == 200
    path = f"/tasks/{quote(HOSTILE, safe='')}"
    found = await gateway.until(path, lambda answer: answer.status == 200)
    assert found.json["task"] == HOSTILE
    assert found.headers["X-Content-Type-Options"] == "nosniff"


async def test_what_is_not_there_is_404_and_what_is_not_understood_400(
    gateway: GatewayClient,
) -> None:
    assert (await gateway.get("/tasks/nobody-knows-it")).status == 404
    assert (await gateway.get("/workers/nobody-knows-them")).status == 404
    assert (await gateway.get("/status?project=none")).status == 404
    assert (await gateway.get("/nothing")).status == 404
    assert (await gateway.ask("DELETE", "/tasks/t1", None, {})).status == 405
    bad = ["order=x", "limit=0", "limit=101", "limit=x", "after=x", "after=1", "limit=²"]
    bad += ["limit=000000001000000", f"limit={5000 * '9'}", f"after=1:{5000 * '9'}"]
    for query in bad:
        assert (await gateway.get(f"/tasks?{query}")).status == 400, query


async def test_events_tell_the_status_and_what_has_changed(gateway: GatewayClient) -> None:
    settings = gateway.projects[0]
    task = f"t-{uuid4().hex}"
    async with gateway.http.get(f"{gateway.url}/events") as stream, asyncio.timeout(30):
        assert stream.content_type == "text/event-stream"
        await gateway.post("/labels", {"task": task, "worker": "ann", "label": 1})
        seen: dict[str, object] = {}
        changed: set[str] = set()
        async for line in stream.content:
            if line.startswith(b"event: "):
                event = line[7:].strip().decode()
            if line.startswith(b"data: "):
                seen[event] = loads(line[6:])
                if event == "posteriors":
                    posteriors = loads(line[6:])
                    assert len(posteriors) <= 20
                    changed |= {posterior["task"] for posterior in posteriors}
            if task in changed and "status" in seen:
                break
    assert seen["status"]["project"] == settings.prefix  # type: ignore[index]


async def test_the_description_is_valid_and_names_every_route(gateway: GatewayClient) -> None:
    document = (await gateway.get("/openapi.json")).json
    validate(document)
    config, stopping = GatewayConfig(), asyncio.Event()
    projects = session.Projects([session.Project(Given.of(Settings()))])
    routes = [
        (route.path, route.method.lower(), route.is_open)
        for subject in subjects(config, projects, GatewayMetrics(), stopping)
        for route in subject.routes()
    ]
    described = [
        (path, method, operation.get("security") == [])
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
    ]
    assert sorted(described) == sorted(routes)


async def test_metrics_count_requests_by_route_and_never_name_an_id(gateway: GatewayClient) -> None:
    await gateway.get("/tasks/secret-id")
    text = (await gateway.get("/metrics")).json.decode()
    assert 'sbic_gateway_requests_total{route="/tasks/{task}",status="404"}' in text
    assert "secret-id" not in text


async def test_one_address_does_not_get_all_streams(gateway: GatewayClient) -> None:
    async with AsyncExitStack() as stack:
        client = await stack.enter_async_context(
            running_gateway(gateway.projects, address_share=0.01)
        )
        await client.until_ready()
        opened = []
        for _ in range(3):
            opened.append(await stack.enter_async_context(client.http.get(f"{client.url}/events")))
        assert [each.status for each in opened] == [200, 200, 503]
        assert opened[2].headers["Retry-After"] == "10"


# A gateway's view of a project, fed with records, without Kafka.


@dataclass
class ViewedRecord:
    key: bytes
    value: bytes | None
    timestamp: int = 0


def record(task: str, log_odds: float, labels: int = 3, at: int = 0) -> ViewedRecord:
    posterior = posterior_of(task, log_odds, labels, {"0": at}, at)
    return ViewedRecord(task.encode(), encode_posterior(posterior), at)


async def names(view: TaskView, order: str) -> list[str]:
    page = await view.orders[order].page(None, 10)
    return [loads(value)["task"] for value in view.values(page.numbers)]


async def test_each_order_has_its_tasks_first() -> None:
    view = TaskView(TaskTally())
    view.take([record("sure", 5.0, at=1), record("open", 0.1, at=3), record("new", 0.0, 1, at=2)])
    assert await names(view, "disputed") == ["open", "sure"]
    assert await names(view, "recent") == ["open", "new", "sure"]
    assert await names(view, "confidence") == ["sure", "open", "new"]


async def test_a_task_that_is_gone_is_on_no_page_and_unknown() -> None:
    view = TaskView(TaskTally())
    view.take([record("t1", 1.0), record("t2", 1.0)])
    view.take([ViewedRecord(b"t1", None)])
    assert view.get("t1") is None
    assert await names(view, "disputed") == ["t2"]
    assert len(view.tally) == 1


@pytest.mark.parametrize(
    "changes",
    [
        {"probability": None},
        {"probability": 7.5},
        {"prediction": [[]]},
        {"updated_at": (1 << 64) - 1},
        {"labels": -1},
        {"labels": 1 << 62},
        {"status": "lost"},
        {"task": ""},
    ],
    ids=str,
)
def test_a_forged_posterior_changes_nothing(changes: dict[str, object]) -> None:
    view = TaskView(TaskTally())
    good = posterior_of("t1", 1.0, 3, {}, 0)
    view.take([ViewedRecord(b"x", dumps({**good, **changes})), record("t2", 1.0)])
    assert len(view.tally) == 1
    assert view.get("t2") is not None


def test_a_posterior_over_several_lines_cannot_end_an_event() -> None:
    view = TaskView(TaskTally())
    forged = encode_posterior(posterior_of("t1", 1.0, 3, {}, 0))
    view.take([ViewedRecord(b"t1", forged.replace(b",", b",\n\n"))])
    view.take([ViewedRecord(b"t2", forged.replace(b"t1", b"t2").replace(b",", b",\r"))])
    values = view.changes.since(0).values
    assert len(values) == 2
    assert not any(b"\n" in value or b"\r" in value for value in values)


async def test_those_who_ask_at_once_wait_for_one_sort() -> None:
    sorts = 0

    def columns() -> tuple[np.ndarray, np.ndarray]:
        nonlocal sorts
        sorts += 1
        return np.arange(3), np.array([0.3, 0.1, 0.2])

    ranking = LiveRanking(columns, key=float)
    pages = await asyncio.gather(*(ranking.page(None, 2) for _ in range(20)))
    assert {tuple(page.numbers) for page in pages} == {(1, 2)}
    assert sorts == 1


class SmallBatches:
    """Takes batches of at most three rows, one at a time."""

    def __init__(self) -> None:
        self.batches: list[list[bytes]] = []
        self.rows: list[bytes] = []

    def create_batch(self) -> "SmallBatches":
        self.rows = []
        return self

    def append(self, value: bytes, **_: object) -> object | None:
        if len(self.rows) == 3:
            return None
        self.rows.append(value)
        return self

    def close(self) -> None:
        self.batches.append(self.rows)

    async def send_batch(self, *_: object, **_in: object) -> "asyncio.Future[object]":
        acknowledged = asyncio.get_running_loop().create_future()
        offset = sum(map(len, self.batches[:-1]))
        acknowledged.set_result(type("Metadata", (), {"offset": offset}))
        return acknowledged


async def test_rows_of_many_go_together_and_each_learns_its_place() -> None:
    kafka = SmallBatches()
    writer = Writer(kafka, partitions=8)
    deliveries = [writer.put("topic", [Row(b"k", b"%d" % number)], 5) for number in range(7)]
    deliveries[3].give_up()
    for number, delivery in enumerate(deliveries):
        if number != 3:
            await delivery.done
    assert kafka.batches == [[b"0", b"1", b"2"], [b"4", b"5", b"6"]]
    assert [delivery.places[0] for delivery in deliveries] == [
        *(At(5, offset) for offset in (0, 1, 2)),
        None,
        *(At(5, offset) for offset in (3, 4, 5)),
    ]
    assert not writer.failed.is_set()


async def test_a_page_is_in_the_order_of_what_it_shows_though_the_ranking_is_old() -> None:
    view = TaskView(TaskTally())
    view.take([record("one", 0.1), record("two", 1.0)])
    assert await names(view, "disputed") == ["one", "two"]
    view.take([record("one", 3.0)])  # within the time for which a ranking is kept
    assert await names(view, "disputed") == ["two", "one"]


def test_labels_that_waited_for_a_recount_have_no_latency() -> None:
    latency = Latency(clock=lambda: 1000.0)
    for second in range(3):
        latency.add(published_at=900_000 + second, labelled_at=700_000)
    assert latency.as_object()["median_ms"] is None
    latency.add(published_at=950_040, labelled_at=950_000)
    assert latency.as_object()["median_ms"] == 40
