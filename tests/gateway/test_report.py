"""`GET /report` is made once for many requests, beside them, and within its limits."""

import asyncio
import threading

import pytest
from orjson import dumps, loads

from sbic.classes import SIGNS
from sbic.gateway import report as served
from sbic.gateway.config import HttpProblem
from sbic.gateway.report import LiveReport
from sbic.gateway.view import ProjectView
from sbic.infer.judging import report_on
from sbic.status.contents import Standing
from sbic.status.report import Summary
from sbic.wire.labels import encode_label
from tests.gateway.client import GatewayClient
from tests.gateway.test_reading import record
from tests.records.made import SentLabel


def view_of(tasks: int, workers: tuple[str, ...]) -> ProjectView:
    """A view of tasks that all workers have answered, with gold for the first three."""
    standing = Standing(SIGNS, partitions=1)
    view = ProjectView(Summary("birds", {}), standing)
    labels = [(f"t{n}", worker, 1 if n % 3 else -1) for n in range(tasks) for worker in workers]
    standing.take(SentLabel(encode_label(*label)) for label in labels)
    standing.take([SentLabel(encode_label("t9", "ann", 0))])
    for n in range(tasks):
        viewed = record(f"t{n}", 2.0 if n % 3 else -2.0, len(workers))
        if n < 3:
            gold = {"gold": True, "evidence": 2.0, "prediction": 1, "probability": 1.0}
            viewed.value = dumps({**loads(viewed.value or b""), **gold})
        view.tasks.take([viewed])
    view.labels_read()
    return view


async def test_it_is_what_the_view_has() -> None:
    found = loads(await LiveReport(view_of(30, ("ann", "bob")), gold_only=False).latest())
    assert (found["of"], found["labels"], found["tasks"], found["gold"]) == ("birds", 60, 30, 3)
    assert {judge["worker"]: judge["skips"] for judge in found["judges"]} == {"ann": 1, "bob": 0}
    assert found["judges"][0]["gold"]["right"] == 2  # both said -1 on the first
    assert found["jury"]["right"] == 3
    assert found["pairs"][0]["agreement"] == 1


async def test_those_who_ask_at_once_get_one_report_which_is_kept(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made: list[threading.Thread] = []

    def counted(*given: object, **more: object) -> object:
        made.append(threading.current_thread())
        return report_on(*given, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(served, "report_on", counted)
    now = 0.0
    live = LiveReport(view_of(5, ("ann", "bob")), gold_only=True, clock=lambda: now)
    first = await asyncio.gather(*(live.latest() for _ in range(5)))
    now = served.FRESH_SECONDS - 1
    assert {*first, await live.latest()} == {first[0]}
    assert len(made) == 1
    assert made[0] is not threading.main_thread()
    now = served.FRESH_SECONDS + 1
    assert loads(await live.latest())["gold_only"] is True
    assert len(made) == 2


async def test_a_report_that_fails_is_made_again(monkeypatch: pytest.MonkeyPatch) -> None:
    live = LiveReport(view_of(5, ("ann", "bob")), gold_only=False)
    with monkeypatch.context() as patch:
        patch.setattr(served, "evidence_from", lambda _: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            await live.latest()
    assert loads(await live.latest())["labels"] == 10


async def test_what_is_too_large_or_not_read_yet_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    view = view_of(5, ("ann", "bob"))
    monkeypatch.setattr(served, "MOST_LABELS", 9)
    with pytest.raises(HttpProblem, match=r"10 labels on 5 tasks .*: use sbic report") as large:
        await LiveReport(view, gold_only=False).latest()
    assert large.value.status == 422
    view.has_labels = False
    with pytest.raises(HttpProblem, match="still being read") as unread:
        await LiveReport(view, gold_only=False).latest()
    assert unread.value.status == 503


async def test_a_query_that_is_not_understood_is_400(gateway: GatewayClient) -> None:
    assert (await gateway.get("/report?gold_only=1")).status == 400
    assert (await gateway.get("/report?project=none")).status == 404
    answer = await gateway.until("/report", lambda answer: answer.status == 200)
    assert answer.json["of"] == gateway.projects[0].prefix
