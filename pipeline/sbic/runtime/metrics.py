"""The metrics of an instance, in base units; tasks and workers are never label values."""

import asyncio
import platform
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from time import monotonic, thread_time, time
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from mode import Service
from numpy.typing import NDArray
from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    GCCollector,
    Histogram,
    PlatformCollector,
    ProcessCollector,
    disable_created_metrics,
)
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeHistogramMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
)
from prometheus_client.registry import Collector

from sbic import __version__
from sbic.engine.labels import Ints
from sbic.instance.instance import Instance
from sbic.instance.requests import outcomes
from sbic.instance.survey import CONFIDENCES, EFFECTIVE_VOTES, Survey, Surveyor
from sbic.instance.taken import Outcome
from sbic.runtime.faust.recovery import RecoveryProgress
from sbic.runtime.faust.stop import abort
from sbic.wire.bad import Reason

if TYPE_CHECKING:
    from sbic.runtime.app import Components, PipelineApp


class Lag(NamedTuple):
    """The lag of a partition: its unfinished records, and the age of the first of them."""

    topic: str
    partition: int
    records: int
    seconds: float


class BatchHistogram(Collector):
    """A histogram that takes the observations of a batch at once, to be cheap per label."""

    def __init__(self, name: str, documentation: str, buckets: Sequence[float]) -> None:
        self.name = name
        self.documentation = documentation
        self.bounds = np.array(buckets)
        self.counts = np.zeros(len(buckets) + 1, dtype=np.int64)
        self.total = 0.0

    def observe(self, values: NDArray[np.float64]) -> None:
        """Count each value in the first bucket whose bound is not below it."""
        found = np.searchsorted(self.bounds, values, side="left")
        self.counts += np.bincount(found, minlength=len(self.counts))
        self.total += float(np.sum(values))

    def collect(self) -> Iterator[HistogramMetricFamily]:
        """Return the cumulative counts, as Prometheus expects them."""
        yield HistogramMetricFamily(
            self.name,
            self.documentation,
            buckets=_cumulative(self.bounds.tolist(), self.counts.tolist()),
            sum_value=self.total,
        )


class CounterCollector(Collector):
    """Reads the values of a counter at each scrape, by the value of one label, if any."""

    def __init__(
        self, name: str, documentation: str, label: str, values: Callable[[], Mapping[str, int]]
    ) -> None:
        self.name = name
        self.documentation = documentation
        self.label = label
        self.values = values

    def collect(self) -> Iterator[CounterMetricFamily]:
        """Return the counter."""
        found = CounterMetricFamily(
            self.name, self.documentation, labels=[self.label] if self.label else []
        )
        for label_value, count in self.values().items():
            found.add_metric([label_value] if self.label else [], count)
        yield found


class LagCollector(Collector):
    """Reads the lags at each scrape."""

    def __init__(self, lags: Callable[[], Iterable[Lag]]) -> None:
        self.lags = lags

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """Return two gauges for each partition that this instance reads."""
        labels = ["topic", "partition"]
        records = GaugeMetricFamily(
            "sbic_lag_records", "Records that are not finished.", labels=labels
        )
        seconds = GaugeMetricFamily(
            "sbic_lag_seconds",
            "The age of the first unfinished record, or of the last finished one before it.",
            labels=labels,
        )
        for lag in self.lags():
            records.add_metric([lag.topic, str(lag.partition)], lag.records)
            seconds.add_metric([lag.topic, str(lag.partition)], lag.seconds)
        yield records
        yield seconds


class RecoveryCollector(Collector):
    """Reads the progress of the recovery at each scrape."""

    def __init__(self, progress: Callable[[], RecoveryProgress]) -> None:
        self.progress = progress

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """Return one gauge, for the records restored and for all records."""
        records = GaugeMetricFamily(
            "sbic_recovery_records",
            "Changelog records of the last recovery: those restored so far, and all of them.",
            labels=["state"],
        )
        progress = self.progress()
        records.add_metric(["restored"], progress.read)
        records.add_metric(["total"], progress.total)
        yield records


class SurveyCollector(Collector):
    """Reports the last survey of the tasks and workers of this instance."""

    def __init__(self, survey: Callable[[], Survey]) -> None:
        self.survey = survey

    def collect(self) -> Iterator[GaugeMetricFamily | GaugeHistogramMetricFamily]:
        """Return gauges that can be summed over the instances of a project."""
        survey = self.survey()
        tasks = GaugeMetricFamily(
            "sbic_own_tasks",
            "Tasks of this instance: open ones, and closed ones by reason.",
            labels=["state"],
        )
        for state, count in survey.tasks_by_state().items():
            tasks.add_metric([state], count)
        yield tasks
        yield GaugeHistogramMetricFamily(
            "sbic_task_confidence",
            "Tasks of this instance by the probability of their most probable class.",
            buckets=_cumulative(CONFIDENCES, survey.confidences.tolist()),
            gsum_value=survey.confidence,
        )
        yield GaugeMetricFamily(
            "sbic_expected_wrong_predictions",
            "How many predictions of this instance's tasks are expected to be wrong.",
            value=survey.expected_wrong,
        )
        yield GaugeHistogramMetricFamily(
            "sbic_task_effective_votes",
            "Tasks of this instance by how many independent votes their labels are worth.",
            buckets=_cumulative(EFFECTIVE_VOTES, survey.votes.tolist()),
            gsum_value=survey.all_votes,
        )
        yield GaugeMetricFamily(
            "sbic_gold_tasks",
            "Gold tasks of this instance with labels: they calibrate and check the others.",
            value=survey.gold,
        )
        yield GaugeMetricFamily(
            "sbic_gold_wrong_predictions",
            "Gold tasks of this instance that labels alone would predict wrongly.",
            value=survey.wrong,
        )
        yield GaugeMetricFamily(
            "sbic_gold_expected_wrong_predictions",
            "How many of them labels alone expect to predict wrongly.",
            value=survey.expected,
        )
        yield GaugeMetricFamily(
            "sbic_blocked_workers",
            "Workers of this instance who get no assignments, by the rule or by the owner's word.",
            value=survey.blocked_workers,
        )
        yield GaugeMetricFamily(
            "sbic_drifting_workers",
            "Workers of this instance who answer otherwise than before (settled).",
            value=survey.drifting_workers,
        )
        yield GaugeMetricFamily(
            "sbic_contradicted_workers",
            "Workers of this instance whose accuracy on gold is not what labels say of them.",
            value=survey.contradicted_workers,
        )


def _cumulative(bounds: Sequence[float], counts: Sequence[int]) -> list[tuple[str, float]]:
    """Return buckets as Prometheus expects them; there is one more count than bounds."""
    names = [*(str(float(bound)) for bound in bounds), "+Inf"]
    return list(zip(names, np.cumsum(counts).tolist(), strict=True))


LATENCY_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 60, 600)
RECORDS_BUCKETS = (1, 3, 10, 30, 100, 300, 1000, 3000, 10000)
REBALANCE_BUCKETS = (0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600)
STAGES = ("worker", "task", "policy")
WITHHELD = ("posteriors", "workers", "assignments")
# Beyond these, a timestamp does not say when the record was sent, and gives no latency.
OLDEST_SECONDS = 3600.0
MOST_AHEAD_SECONDS = 60.0


class Metrics:
    """All metrics of an instance, in a separate registry."""

    def __init__(self, prefix: str) -> None:
        # would add a second series for each counter, which Prometheus does not use
        disable_created_metrics()  # type: ignore[no-untyped-call]
        registry = self.registry = CollectorRegistry()
        ProcessCollector(registry=registry)
        PlatformCollector(registry=registry)
        GCCollector(registry=registry)
        self.labels = self._counter("sbic_labels", "Labels taken, by outcome.", outcome=Outcome)
        self.votes = self._counter(
            "sbic_votes", "Votes for tasks of this instance; replays count again."
        )
        self.fenced_votes = self._counter(
            "sbic_votes_fenced", "Votes that were counted before, and are not counted again."
        )
        self.posteriors = self._counter("sbic_posteriors", "Posteriors published.")
        self.dead_letters = self._counter(
            "sbic_dead_letters", "Records that could not be used.", reason=Reason
        )
        self.withheld = self._counter(
            "sbic_withheld_records",
            "Records not published because this instance was removed from the group.",
            topic=WITHHELD,
        )
        self.misdated = self._counter(
            "sbic_misdated",
            "Labels and requests with timestamps too old, or too far ahead, to measure latency.",
            timestamp=("old", "ahead"),
        )
        self.latency = BatchHistogram(
            "sbic_label_to_posterior_seconds",
            "From a label's timestamp until its posterior was published.",
            LATENCY_BUCKETS,
        )
        registry.register(self.latency)
        self.requests = self._counter(
            "sbic_requests", "Requests for tasks read; replays count again."
        )
        self.assignments = self._counter(
            "sbic_assignments",
            "Assignments published, by the policy that chose the task or the reason for none.",
            outcome=outcomes(),
        )
        self.expired_leases = self._counter(
            "sbic_leases_expired", "Leases given by this instance that ended without an answer."
        )
        self.assignment_latency = BatchHistogram(
            "sbic_request_to_assignment_seconds",
            "From a request's timestamp until its assignment was published.",
            LATENCY_BUCKETS,
        )
        registry.register(self.assignment_latency)
        self.batch_records = self._by_stage(
            "sbic_batch_records",
            "Labels, votes or requests whose results were published together, by stage.",
            RECORDS_BUCKETS,
        )
        self.batch_seconds = self._by_stage(
            "sbic_batch_seconds",
            "Seconds from the first of these until all results were published, by stage.",
            LATENCY_BUCKETS,
        )
        self.rebalances = self._counter("sbic_rebalances", "Rebalances of the group that began.")
        self.rebalance_seconds = Histogram(
            "sbic_rebalance_seconds",
            "Seconds from the start of a rebalance until all state was recovered.",
            buckets=REBALANCE_BUCKETS,
            registry=registry,
        )
        self.recovery_seconds = Gauge(
            "sbic_recovery_seconds",
            "Seconds from the start of the last rebalance until all state was recovered.",
            registry=registry,
        )
        build = Gauge(
            "sbic_build_info",
            "Always 1; its labels are the versions, and the prefix of the project.",
            ["prefix", "version", "python"],
            registry=registry,
        )
        build.labels(prefix, __version__, platform.python_version()).set(1)

    def _counter(self, name: str, documentation: str, **values: Iterable[str]) -> Counter:
        """Return a counter that has a series for each value of its label from the start."""
        counter = Counter(name, documentation, list(values), registry=self.registry)
        for known in values.values():
            for value in known:
                counter.labels(value)
        return counter

    def _by_stage(self, name: str, documentation: str, buckets: Sequence[float]) -> Histogram:
        histogram = Histogram(
            name, documentation, ["stage"], buckets=buckets, registry=self.registry
        )
        for stage in STAGES:
            histogram.labels(stage)
        return histogram

    def gauge(self, name: str, documentation: str, value: Callable[[], float]) -> None:
        """Register a gauge whose value is read at each scrape."""
        Gauge(name, documentation, registry=self.registry).set_function(value)

    def counter(self, name: str, documentation: str, value: Callable[[], int]) -> None:
        """Register a counter whose value is read at each scrape."""
        self.registry.register(CounterCollector(name, documentation, "", lambda: {"": value()}))

    def counters(
        self, name: str, documentation: str, label: str, values: Callable[[], Mapping[str, int]]
    ) -> None:
        """Register a counter with a label whose values are read at each scrape."""
        self.registry.register(CounterCollector(name, documentation, label, values))

    def lags(self, lags: Callable[[], Iterable[Lag]]) -> None:
        """Register the metrics of the lags of partitions."""
        self.registry.register(LagCollector(lags))

    def recovery(self, progress: Callable[[], RecoveryProgress]) -> None:
        """Register the metric of the recovery's progress."""
        self.registry.register(RecoveryCollector(progress))

    def survey(self, survey: Callable[[], Survey]) -> None:
        """Register the metrics of the survey of tasks and workers."""
        self.registry.register(SurveyCollector(survey))

    def took(self, stage: str, records: int, seconds: float) -> None:
        """Observe the seconds that a stage took to publish the results of these records."""
        if records:
            self.batch_records.labels(stage).observe(records)
            self.batch_seconds.labels(stage).observe(seconds)

    def dated(self, timestamps: Sequence[Ints]) -> None:
        """Observe labels, by their timestamps in milliseconds, whose posteriors are published."""
        if timestamps:
            self._observe_ages(self.latency, np.concatenate(timestamps))

    def assigned(
        self, requests: int, outcomes: Mapping[str, int], timestamps: Sequence[int]
    ) -> None:
        """Count requests, and observe the timestamps of those whose assignments are published."""
        self.requests.inc(requests)
        for outcome, assignments in outcomes.items():
            self.assignments.labels(outcome).inc(assignments)
        self._observe_ages(self.assignment_latency, timestamps)

    def rebalanced(self, seconds: float) -> None:
        """Observe the seconds from the start of a rebalance until all state was recovered."""
        self.rebalance_seconds.observe(seconds)
        self.recovery_seconds.set(seconds)

    def _observe_ages(self, histogram: BatchHistogram, timestamps: Sequence[int] | Ints) -> None:
        if not len(timestamps):
            return
        ages = time() - np.asarray(timestamps) / 1000
        if ages.max() > OLDEST_SECONDS or ages.min() < -MOST_AHEAD_SECONDS:
            old, ahead = ages > OLDEST_SECONDS, ages < -MOST_AHEAD_SECONDS
            self.misdated.labels("old").inc(int(old.sum()))
            self.misdated.labels("ahead").inc(int(ahead.sum()))
            ages = ages[~(old | ahead)]
        histogram.observe(np.maximum(ages, 0.0))  # a producer's clock may be a little ahead


# Metrics whose values are read from the parts of an instance at each scrape.


def add_gauges(app: "PipelineApp") -> None:
    """Register the metrics of all parts of the app."""
    parts = app.components
    _add_crowd(app)
    _add_kafka(app)
    gauge = parts.metrics.gauge
    gauge("sbic_ready", "1 if /readyz says ready.", lambda: parts.readiness.why_not_ready() is None)
    parts.metrics.recovery(lambda: app.recovery.progress)


def _add_crowd(app: "PipelineApp") -> None:
    parts = app.components
    gauge, crowd = parts.metrics.gauge, parts.crowd
    gauge("sbic_tasks", "Tasks known.", lambda: len(crowd.tasks))
    gauge("sbic_workers", "Workers of this instance.", lambda: parts.worker_stage.workers)
    gauge(
        "sbic_tasks_due",
        "Tasks of this instance that are to be weighed again, as far as is known.",
        lambda: crowd.engine.due,
    )
    gauge(
        "sbic_settled",
        "1 if no task of this instance is to be weighed again.",
        lambda: parts.settler.is_at_rest,
    )
    gauge(
        "sbic_dependence",
        "The part of a vote that is not its own, as labels show it: votes end at 1 / this.",
        lambda: float(crowd.engine.outside.dependence),
    )
    gauge(
        "sbic_calibrated",
        "1 if gold calibrates confidence, 0 if it is estimated from labels alone.",
        lambda: crowd.engine.is_calibrated,
    )
    gauge("sbic_leases", "Tasks that are leased to workers.", lambda: _running_leases(parts))
    parts.metrics.survey(lambda: app.task_survey.last)
    gauge(
        "sbic_labels_retention_wrong",
        "1 if retention or compaction of the labels topic is not what the project keeps.",
        lambda: bool(app.labels_watch.kept.wrong),
    )
    gauge(
        "sbic_expired_labels",
        "Labels that Kafka has removed although the project keeps them, or before they counted.",
        lambda: max(app.labels_watch.kept.expired, app.labels_watch.kept.uncounted),
    )
    gauge(
        "sbic_budget_left_labels",
        "Labels of all instances until the budget is spent; NaN if there is no budget.",
        lambda: parts.budget_left,
    )
    gauge(
        "sbic_spent_money",
        "What all labels of all instances cost, at the prices in the roster.",
        lambda: parts.spent,
    )
    gauge(
        "sbic_budget_left_money",
        "Money until the budget is spent; NaN if there is no budget in money.",
        lambda: parts.cost_left,
    )


def _running_leases(parts: "Components") -> int:
    parts.leases.expire(int(1000 * time()))
    expired = parts.leases.take_expirations(parts.worker_stage.partitions)
    parts.metrics.expired_leases.inc(expired)
    return len(parts.leases)


def _add_kafka(app: "PipelineApp") -> None:
    metrics = app.components.metrics
    metrics.gauge(
        "sbic_estimates_lag_records",
        "Records with the estimates of other instances that are not read yet.",
        app.components.estimates_follower.lag,
    )
    metrics.lags(app.lags_in_seconds)
    metrics.counter(
        "sbic_expulsions",
        "Times that Kafka has removed this instance from the group.",
        lambda: app.expulsions,
    )
    metrics.counters(
        "sbic_kafka_errors",
        "Errors of Kafka's clients, which retry by themselves, by the part that had them.",
        "client",
        lambda: app.kafka_errors.counts,
    )
    metrics.counter(
        "sbic_kafka_retries",
        "Batches of records that were sent to Kafka again.",
        lambda: sum(publisher.producer.retries for publisher in app.publishers),
    )


# Keeps a survey of the own tasks and workers, in the background.


SECONDS_BETWEEN = 2.0
SHARE = 0.02  # of the time, at the most, however many tasks there are


class TaskSurvey(Service):
    """Makes one survey after the other, of which the other instances hear; `last` is complete."""

    def __init__(self, surveyor: Surveyor, instance: Instance[Any], **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.surveyor = surveyor
        self.instance = instance
        self.classes = instance.crowd.engine.classes
        self.last = Survey.empty(self.classes)

    @Service.task
    async def _run(self) -> None:
        try:
            while not self.should_stop:
                due = monotonic() + SECONDS_BETWEEN
                await self._make()
                await self.sleep(max(0.0, due - monotonic()))
        except Exception as error:
            abort(error)

    async def _make(self) -> None:
        survey = Survey.empty(self.classes)
        begun = thread_time()
        for tasks in self.surveyor.steps(survey):
            self.instance.review(tasks)
            spent = thread_time() - begun
            await asyncio.sleep(spent * (1 / SHARE - 1))
            if self.should_stop:
                return
            begun = thread_time()
        self.last = survey
        if self.instance.tasks.is_restored:
            self.instance.found(survey.findings(self.surveyor.dependence))
