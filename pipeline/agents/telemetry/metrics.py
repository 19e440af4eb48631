"""The metrics of an instance, in base units; tasks and workers are never label values."""

import platform
from collections.abc import Callable, Iterable, Mapping, Sequence
from time import time

import numpy as np
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

from pipeline import __version__
from pipeline.agents.telemetry.collectors import (
    BatchHistogram,
    CounterCollector,
    Lag,
    LagCollector,
    RecoveryCollector,
    SurveyCollector,
)
from pipeline.batched.progress import Progress
from pipeline.inference.labels import Ints
from pipeline.records.bad import Reason
from pipeline.stages.assignment_rules import outcomes
from pipeline.stages.survey import Survey
from pipeline.stages.taken import Outcome

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

    def recovery(self, progress: Callable[[], Progress]) -> None:
        """Register the metric of the recovery's progress."""
        self.registry.register(RecoveryCollector(progress))

    def survey(self, survey: Callable[[], Survey]) -> None:
        """Register the metrics of the survey of tasks and workers."""
        self.registry.register(SurveyCollector(survey))

    def took(self, stage: str, records: int, seconds: float) -> None:
        """Observe the seconds that a stage took to publish the results of so many records."""
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
