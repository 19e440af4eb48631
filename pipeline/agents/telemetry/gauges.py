"""Metrics whose values are read from the parts of an instance at each scrape."""

from time import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pipeline.agents.app import PipelineApp
    from pipeline.agents.components import Components


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
    gauge("sbic_leases", "Tasks that are leased to workers.", lambda: _running_leases(parts))
    parts.metrics.survey(lambda: app.task_survey.last)
    budget = app.settings.budget
    if budget is not None:
        gauge(
            "sbic_budget_left_labels",
            "Labels of all instances until the budget is spent.",
            lambda: max(0, budget - crowd.labels),
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
