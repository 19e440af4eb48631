"""Collectors that Prometheus' client lacks: for batches, and for values read at each scrape."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeHistogramMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
)
from prometheus_client.registry import Collector

from pipeline.batched.progress import Progress
from pipeline.stages.survey import CONFIDENCES, Survey


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

    def __init__(self, progress: Callable[[], Progress]) -> None:
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
        yield GaugeMetricFamily(
            "sbic_blocked_workers",
            "Workers of this instance who get no assignments because of their low accuracy.",
            value=survey.blocked_workers,
        )


def _cumulative(bounds: Sequence[float], counts: Sequence[int]) -> list[tuple[str, float]]:
    """Return buckets as Prometheus expects them; there is one more count than bounds."""
    names = [*(str(float(bound)) for bound in bounds), "+Inf"]
    return list(zip(names, np.cumsum(counts).tolist(), strict=True))
