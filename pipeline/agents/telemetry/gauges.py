"""The metrics that are asked of an instance when Prometheus asks."""

from time import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pipeline.agents.app import PipelineApp


def add_gauges(app: "PipelineApp") -> None:
    """Let Prometheus ask what each part of the app knows."""
    _add_crowd(app)
    _add_kafka(app)
    gauge = app.metrics.gauge
    gauge("sbic_ready", "1 if /readyz says ready.", lambda: app.why_not_ready() is None)
    app.metrics.recovery(lambda: app.recovery.progress)


def _add_crowd(app: "PipelineApp") -> None:
    gauge, crowd = app.metrics.gauge, app.crowd
    gauge("sbic_tasks", "Tasks known.", lambda: len(crowd.tasks))
    gauge("sbic_workers", "Workers of this instance.", lambda: app.worker_stage.workers)
    gauge(
        "sbic_tasks_due",
        "Tasks of this instance that are to be weighed anew, as far as is known.",
        lambda: crowd.engine.due,
    )
    gauge(
        "sbic_settled",
        "1 if no task of this instance is to be weighed anew.",
        lambda: app.settler.is_at_rest,
    )
    gauge("sbic_leases", "Tasks that are out with workers.", lambda: _running_leases(app))
    app.metrics.survey(lambda: app.task_survey.last)
    budget = app.settings.budget
    if budget is not None:
        gauge(
            "sbic_budget_left_labels",
            "Labels of all instances until the budget is spent.",
            lambda: max(0, budget - crowd.labels),
        )


def _running_leases(app: "PipelineApp") -> int:
    app.leases.expire(int(1000 * time()))
    app.metrics.expired_leases.inc(app.leases.take_expirations(app.worker_stage.partitions))
    return len(app.leases)


def _add_kafka(app: "PipelineApp") -> None:
    metrics = app.metrics
    metrics.gauge(
        "sbic_estimates_lag_records",
        "Records in which other instances tell of their tasks and workers, not yet read.",
        app.follower.lag,
    )
    metrics.lags(app.lags)
    metrics.counter(
        "sbic_expulsions",
        "Times that Kafka has put this instance out of the group.",
        lambda: app.expulsions,
    )
    metrics.counters(
        "sbic_kafka_errors",
        "Errors that Kafka's clients have got over or are getting over, by the part that had them.",
        "client",
        lambda: app.kafka_errors.counts,
    )
    metrics.counter(
        "sbic_kafka_retries",
        "Batches of records that had to be sent to Kafka again.",
        lambda: sum(publisher.producer.retries for publisher in app.publishers),
    )
