"""What an instance tells Prometheus: base units, and never a task or worker as a label value."""

import platform
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from time import time
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    GCCollector,
    Histogram,
    PlatformCollector,
    ProcessCollector,
)
from prometheus_client.core import GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.registry import Collector

from pipeline import __version__
from pipeline.batched.progress import Progress
from pipeline.inference.labels import Ints
from pipeline.records.bad import Reason
from pipeline.stages.assignment_stage import outcomes
from pipeline.stages.worker_stage import Outcome

LATENCY_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 60, 600)
RECORDS_BUCKETS = (1, 3, 10, 30, 100, 300, 1000, 3000, 10000)
STAGES = ("worker", "task", "policy")


class Lag(NamedTuple):
    """How far a partition is behind: records that wait, and the age of the first of them."""

    topic: str
    partition: int
    records: int
    seconds: float


class BatchHistogram(Collector):
    """A histogram that takes the observations of a batch at once: a label must stay cheap."""

    def __init__(self, name: str, documentation: str, buckets: Sequence[float]) -> None:
        self.name = name
        self.documentation = documentation
        self.bounds = np.array(buckets)
        self.counts = np.zeros(len(buckets) + 1, dtype=np.int64)
        self.total = 0.0

    def observe(self, values: NDArray[np.float64]) -> None:
        """Count each value in the first bucket that it is not above."""
        found = np.searchsorted(self.bounds, values, side="left")
        self.counts += np.bincount(found, minlength=len(self.counts))
        self.total += float(np.sum(values))

    def collect(self) -> Iterator[HistogramMetricFamily]:
        """The cumulative counts, as Prometheus wants them."""
        bounds = [*(str(float(bound)) for bound in self.bounds), "+Inf"]
        counts = np.cumsum(self.counts).tolist()
        yield HistogramMetricFamily(
            self.name,
            self.documentation,
            buckets=list(zip(bounds, counts, strict=True)),
            sum_value=self.total,
        )


class LagCollector(Collector):
    """Asks for the lags when Prometheus asks."""

    def __init__(self, lags: Callable[[], Iterable[Lag]]) -> None:
        self.lags = lags

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """Two gauges for each partition this instance reads."""
        labels = ["topic", "partition"]
        records = GaugeMetricFamily(
            "sbic_lag_records", "Records that wait to be dealt with.", labels=labels
        )
        seconds = GaugeMetricFamily(
            "sbic_lag_seconds",
            "While records wait: how long ago the first of them, or the last done, was written.",
            labels=labels,
        )
        for lag in self.lags():
            records.add_metric([lag.topic, str(lag.partition)], lag.records)
            seconds.add_metric([lag.topic, str(lag.partition)], lag.seconds)
        yield records
        yield seconds


class RecoveryCollector(Collector):
    """Asks how far the recovery is when Prometheus asks."""

    def __init__(self, progress: Callable[[], Progress]) -> None:
        self.progress = progress

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """One gauge, for what is restored and for what there is."""
        records = GaugeMetricFamily(
            "sbic_recovery_records",
            "Changelog records of the last recovery: those restored so far, and all of them.",
            labels=["state"],
        )
        progress = self.progress()
        records.add_metric(["restored"], progress.read)
        records.add_metric(["total"], progress.total)
        yield records


class Metrics:
    """All metrics of an instance, in a registry of their own."""

    def __init__(self) -> None:
        registry = self.registry = CollectorRegistry()
        ProcessCollector(registry=registry)
        PlatformCollector(registry=registry)
        GCCollector(registry=registry)
        self.labels = Counter(
            "sbic_labels", "Labels taken, by what became of them.", ["outcome"], registry=registry
        )
        self.votes = Counter(
            "sbic_votes", "Votes read by the task agent; replays count again.", registry=registry
        )
        self.posteriors = Counter("sbic_posteriors", "Posteriors published.", registry=registry)
        self.dead_letters = Counter(
            "sbic_dead_letters", "Records that could not be used.", ["reason"], registry=registry
        )
        self.latency = BatchHistogram(
            "sbic_label_to_posterior_seconds",
            "From a label's timestamp until its posterior was published.",
            LATENCY_BUCKETS,
        )
        registry.register(self.latency)
        self.requests = Counter(
            "sbic_requests", "Requests for tasks read; replays count again.", registry=registry
        )
        self.assignments = Counter(
            "sbic_assignments",
            "Assignments published, by the policy that chose the task or the reason for none.",
            ["outcome"],
            registry=registry,
        )
        self.assignment_latency = BatchHistogram(
            "sbic_request_to_assignment_seconds",
            "From a request's timestamp until its assignment was published.",
            LATENCY_BUCKETS,
        )
        registry.register(self.assignment_latency)
        self.batch_records = Histogram(
            "sbic_batch_records",
            "Labels, votes or requests whose results were published together, by stage.",
            ["stage"],
            buckets=RECORDS_BUCKETS,
            registry=registry,
        )
        self.batch_seconds = Histogram(
            "sbic_batch_seconds",
            "Seconds from the first of these until all that they came to was published, by stage.",
            ["stage"],
            buckets=LATENCY_BUCKETS,
            registry=registry,
        )
        self.recovery_seconds = Gauge(
            "sbic_recovery_seconds",
            "Seconds that the last rebalance took until all state was recovered.",
            registry=registry,
        )
        build = Gauge(
            "sbic_build_info",
            "Always 1; the versions are its labels.",
            ["version", "python"],
            registry=registry,
        )
        build.labels(__version__, platform.python_version()).set(1)
        for outcome in Outcome:
            self.labels.labels(outcome)
        for name in outcomes():
            self.assignments.labels(name)
        for reason in Reason:
            self.dead_letters.labels(reason)
        for stage in STAGES:
            self.batch_records.labels(stage)
            self.batch_seconds.labels(stage)

    def gauge(self, name: str, documentation: str, value: Callable[[], float]) -> None:
        """A gauge that asks for its value when Prometheus asks."""
        Gauge(name, documentation, registry=self.registry).set_function(value)

    def lags(self, lags: Callable[[], Iterable[Lag]]) -> None:
        """Where the lags of partitions come from."""
        self.registry.register(LagCollector(lags))

    def recovery(self, progress: Callable[[], Progress]) -> None:
        """Where the progress of the recovery comes from."""
        self.registry.register(RecoveryCollector(progress))

    def took(self, stage: str, records: int, seconds: float) -> None:
        """A stage took that long to publish what it made of so many records."""
        if records:
            self.batch_records.labels(stage).observe(records)
            self.batch_seconds.labels(stage).observe(seconds)

    def dated(self, timestamps: Sequence[Ints]) -> None:
        """Labels with these timestamps, in milliseconds, have their posterior published now."""
        if timestamps:
            _observe_ages(self.latency, np.concatenate(timestamps))

    def assigned(
        self, requests: int, outcomes: Mapping[str, int], timestamps: Sequence[int]
    ) -> None:
        """Requests were read, and assignments for those with these timestamps published."""
        self.requests.inc(requests)
        for outcome, assignments in outcomes.items():
            self.assignments.labels(outcome).inc(assignments)
        _observe_ages(self.assignment_latency, timestamps)


def _observe_ages(histogram: BatchHistogram, timestamps: Sequence[int] | Ints) -> None:
    if len(timestamps):
        ages = time() - np.asarray(timestamps) / 1000
        histogram.observe(np.maximum(ages, 0.0))  # a producer's clock may be ahead
