"""Collectors that Prometheus' own client does not have: of batches, and of what is asked for."""

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
        yield HistogramMetricFamily(
            self.name,
            self.documentation,
            buckets=_cumulative(self.bounds.tolist(), self.counts.tolist()),
            sum_value=self.total,
        )


class CounterCollector(Collector):
    """Asks for the values of a counter when Prometheus asks; by the value of one label, if any."""

    def __init__(
        self, name: str, documentation: str, label: str, values: Callable[[], Mapping[str, int]]
    ) -> None:
        self.name = name
        self.documentation = documentation
        self.label = label
        self.values = values

    def collect(self) -> Iterator[CounterMetricFamily]:
        """One counter."""
        found = CounterMetricFamily(
            self.name, self.documentation, labels=[self.label] if self.label else []
        )
        for label_value, count in self.values().items():
            found.add_metric([label_value] if self.label else [], count)
        yield found


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


class SurveyCollector(Collector):
    """Tells what the last survey of the tasks and workers of this instance has found."""

    def __init__(self, survey: Callable[[], Survey]) -> None:
        self.survey = survey

    def collect(self) -> Iterator[GaugeMetricFamily | GaugeHistogramMetricFamily]:
        """Gauges that add up over instances to those of the project."""
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
            "Workers of this instance who get no assignments, for their accuracy is too low.",
            value=survey.blocked_workers,
        )


def _cumulative(bounds: Sequence[float], counts: Sequence[int]) -> list[tuple[str, float]]:
    """Buckets as Prometheus wants them; there is one count more than there are bounds."""
    names = [*(str(float(bound)) for bound in bounds), "+Inf"]
    return list(zip(names, np.cumsum(counts).tolist(), strict=True))
