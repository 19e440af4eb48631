"""What an instance logs, and how much of it."""

import asyncio
import json
import logging
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import numpy as np
import pytest
from aiohttp import web
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from sbic.classes import SIGNS, SKIP
from sbic.engine.engine import Engine
from sbic.instance.crowd import Crowd, Rows
from sbic.instance.publication import MOST_PENDING, MOST_TRACED, Traces
from sbic.local.broker import EmbeddedBroker
from sbic.project.settings import SPECS, Settings
from sbic.runtime.logs import DeadLetterLog, JsonFormatter, TextFormatter, log_start
from sbic.wire.bad import BadRecord, Reason
from sbic.wire.dead_letters import Origin
from sbic.wire.labels import encode_label
from sbic.wire.partitions import Row
from sbic.wire.traces import traced_tasks
from tests.agents.kafka import project, until
from tests.agents.test_publisher import ELSEWHERE, record
from tests.instances import instance

NOT_JSON = BadRecord(Reason.NOT_JSON, "the value is not JSON:\nforged line")


def record_of(level: int, message: str, *, error: bool = False) -> logging.LogRecord:
    info = sys.exc_info() if error else None
    return logging.LogRecord("sbic", level, __file__, 1, message, (), info)


def test_a_line_of_json_has_the_traceback_in_it() -> None:
    try:
        raise ValueError("no\nsuch")
    except ValueError:
        line = JsonFormatter().format(record_of(logging.ERROR, "two\nlines", error=True))
    assert "\n" not in line
    found = json.loads(line)
    assert found["level"] == "error"
    assert found["message"] == "two\nlines"
    assert found["error"].startswith("Traceback")
    assert found["error"].endswith("ValueError: no\nsuch")


def test_the_last_words_are_those_of_a_command() -> None:
    assert TextFormatter().format(record_of(logging.CRITICAL, "stopped")) == "sbic: stopped"
    assert TextFormatter().format(record_of(logging.INFO, "x")).endswith(" INFO sbic: x")


def test_the_first_line_has_the_settings_in_force(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "sbic"):
        log_start(Settings(prefix="birds", stop_labels=5))
    (line,) = caplog.records
    assert "prefix=birds" in line.getMessage()
    assert "stop_labels=5" in line.getMessage()
    told = json.loads(JsonFormatter().format(line))
    assert told["settings"]["prefix"] == "birds"
    assert set(told["settings"]) <= set(SPECS)


def test_dead_letters_take_a_line_for_the_first_of_a_reason_and_one_a_minute(
    caplog: pytest.LogCaptureFixture,
) -> None:
    told = DeadLetterLog()
    with caplog.at_level(logging.INFO, "sbic"):
        for offset in range(1000):
            told.add(Origin("birds.labels", 3, offset), NOT_JSON)
        told.add(Origin("birds.labels", 3, 2000), BadRecord(Reason.BAD_LABEL, "no"))
        told.log_counts()
        told.log_counts()
    first, second, minute = [record.getMessage() for record in caplog.records]
    assert first.startswith("dead letter (not-json): offset 0 of birds.labels, partition 3: the")
    assert "\n" not in first
    assert second.startswith("dead letter (bad-label): offset 2000 ")
    assert minute == "dead letters in the last minute: 999 not-json"


# The trace of a label is carried to its posterior, and exported as spans.


TRACE, PARENT = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
SAMPLED = f"00-{TRACE}-{PARENT}-01".encode()
NOT_SAMPLED = f"00-{TRACE[::-1]}-{PARENT}-00".encode()


class Collector:
    """Takes what OpenTelemetry's exporters send, by OTLP over HTTP."""

    def __init__(self) -> None:
        self.spans: list[Span] = []
        self.address = ""

    async def take(self, request: web.Request) -> web.Response:
        sent = ExportTraceServiceRequest.FromString(await request.read())
        for resource in sent.resource_spans:
            for scope in resource.scope_spans:
                self.spans += scope.spans
        return web.Response()


@asynccontextmanager
async def collector() -> AsyncIterator[Collector]:
    made, app = Collector(), web.Application()
    app.router.add_post("/v1/traces", made.take)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    made.address = f"http://127.0.0.1:{runner.addresses[0][1]}"
    try:
        yield made
    finally:
        await runner.cleanup()


async def test_a_trace_is_carried_to_the_posterior_and_exported_if_it_is_sampled(
    broker: EmbeddedBroker,
) -> None:
    here = await project(broker)
    sent = {"t1": SAMPLED, "t2": NOT_SAMPLED, "t3": b"not a trace", "t4": None}
    async with collector() as collecting:
        environment = {"SBIC_OTEL": "true", "OTEL_EXPORTER_OTLP_ENDPOINT": collecting.address}
        environment["OTEL_BSP_SCHEDULE_DELAY"] = "3600000"  # it is sent when the instance stops
        with instance(broker.url, here.settings.prefix, **environment) as running:
            async with here.producer() as producer:
                for task, trace in sent.items():
                    headers = [("traceparent", trace)] if trace else []
                    value = encode_label(task, "ann", 1)
                    await producer.send(here.topics.labels.name, value, key=b"ann", headers=headers)
            await here.until_counted(len(sent))
            assert await asyncio.to_thread(running.terminate) == 0, running.log()

        async def is_collected() -> bool:
            return bool(collecting.spans)

        await until(is_collected)
    found = {
        one.key.decode(): dict(one.headers).get("traceparent")
        for one in await here.read(here.topics.posteriors.name)
    }
    assert found == {"t1": SAMPLED, "t2": NOT_SAMPLED, "t3": None, "t4": None}
    (span,) = collecting.spans
    assert (span.trace_id.hex(), span.parent_span_id.hex()) == (TRACE, PARENT)
    assert span.name == "sbic.posterior"
    assert 0 < span.end_time_unix_nano - span.start_time_unix_nano < 60e9


def crowd_with(*own: int) -> Crowd:
    crowd = Crowd(Engine("fast-sbic"), SIGNS, partitions=2)
    for partition in own:
        crowd.open_tasks(partition)
    return crowd


def take(traces: Traces, tasks: list[str], answers: list[int] | None = None) -> None:
    """Take a traced label on each of these tasks."""
    count = len(tasks)
    columns = np.zeros(count, np.int64), np.array(answers or [1] * count)
    offsets = np.arange(count)
    zeros = np.zeros(count, np.int64)
    rows = Rows(traces.crowd.number_tasks(tasks), *columns, offsets, zeros, zeros + ELSEWHERE)
    records = [record(offset, b"") for offset in range(count)]
    for one in records:
        one.headers = [("traceparent", SAMPLED)]
    traces.took({ELSEWHERE: records}, rows)


def test_the_trace_of_a_label_on_a_task_elsewhere_goes_with_its_votes() -> None:
    traces = Traces(crowd_with(0))
    names = [f"t{i}" for i in range(2 * MOST_TRACED + 60)]
    traces.crowd.number_tasks(names)
    elsewhere = [names[i] for i in traces.crowd.tasks_of(1)]
    assert len(elsewhere) > MOST_TRACED
    take(traces, elsewhere)
    assert not traces.pending
    rows = [Row(None, b"votes"), Row(None, b"more")]
    spans = traces.mark_votes(1, rows)
    assert [span.name for span in spans] == ["sbic.vote"] * MOST_TRACED
    followed = list(traced_tasks(rows[1][3]))
    assert [one.task for one in followed] == elsewhere[:MOST_TRACED]
    assert {one.traceparent for one in followed} == {SAMPLED}
    assert traces.mark_votes(1, rows) == []


def test_a_skip_leaves_no_trace_and_a_posterior_carries_the_last_one() -> None:
    traces = Traces(crowd_with(0, 1))
    take(traces, ["t1", "t2"], [SKIP, 1])
    traces.follow(1, NOT_SAMPLED)
    rows = [Row(b"t1", b""), Row(b"t2", b"")]
    (span,) = traces.mark_posteriors(np.array([0, 1]), rows)
    assert span.traceparent == NOT_SAMPLED
    assert [row[3] for row in rows] == [[], [("traceparent", NOT_SAMPLED)]]


def test_traces_whose_posterior_never_comes_do_not_pile_up() -> None:
    traces = Traces(crowd_with(0, 1))
    for task in range(MOST_PENDING + 5):
        traces.follow(task, SAMPLED)
    assert len(traces.pending) == MOST_PENDING
    assert 0 not in traces.pending
