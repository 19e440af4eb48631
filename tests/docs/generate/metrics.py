"""docs/reference/metrics.md, from the registries of an instance, a gateway, a sink and a push."""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from prometheus_client import CollectorRegistry
from prometheus_client.metrics_core import Metric

from tests.docs.generate.markdown import code, page, table
from tests.docs.generate.settings import (
    gateway_registries,
    instance_registries,
    push_registries,
    sink_registries,
)

INTRODUCTION = """\
`GET /metrics` of an instance (port 6066, `SBIC_WEB_PORT`), of a gateway (port 8080), of a sink and
of a push (`--metrics-port`). Units are base units, no task or worker id is ever a label value, and
there are no `_created` series. Besides these there are the usual `process_*` and `python_*`
metrics. A histogram has `_bucket`, `_sum` and `_count` series.

[rules.yml](../../deploy/prometheus/rules.yml) has alerts on these, [runbooks.md](../runbooks.md)
says what to do about each, and [sbic.json](../../deploy/grafana/sbic.json) is a dashboard for
Grafana. [operations.md](../operations.md#metrics-that-matter) says which matter most.
"""

INSTANCE = """\
## Instance

Values are of the instance that answers; add them up over instances for the project, except where
the help says otherwise.
"""
KINDS = {"gaugehistogram": "gauge histogram"}
OPEN_LABELS = ("topic", "partition", "prefix", "version", "python", "route", "status")
"""Labels with values that depend on the installation."""


class Family(NamedTuple):
    """A metric as its user sees it; `labels` has the known values of each label."""

    name: str
    kind: str
    labels: dict[str, list[str]]
    help_text: str
    series: frozenset[str]


def metrics_page() -> str:
    """The page."""
    return page(
        "Metrics",
        INTRODUCTION,
        INSTANCE,
        _table(families(instance_registries())),
        "## Gateway\n",
        _table(families(gateway_registries())),
        "## Sink\n",
        _table(families(sink_registries())),
        "## Push\n",
        _table(families(push_registries())),
    )


def families(registries: Iterable[CollectorRegistry]) -> list[Family]:
    """All metrics of sbic, by name; of those that are there twice, the one with values."""
    found: dict[str, Metric] = {}
    for registry in registries:
        for metric in registry.collect():
            if metric.name.startswith("sbic_") and (metric.samples or metric.name not in found):
                found[metric.name] = metric
    return sorted(map(_family, found.values()))


def _family(metric: Metric) -> Family:
    labels: dict[str, list[str]] = {}
    for sample in metric.samples:
        for name, value in sample.labels.items():
            known = labels.setdefault(name, [])
            if name != "le" and value not in known:
                known.append(value)
    labels.pop("le", None)
    suffix = "_total" if metric.type == "counter" else ""
    series = frozenset(sample.name for sample in metric.samples)
    assert series, f"{metric.name} has no value: `registries` has to give it one"
    return Family(
        metric.name + suffix,
        KINDS.get(metric.type, metric.type),
        labels,
        metric.documentation,
        series,
    )


def _table(found: Iterable[Family]) -> str:
    header = ["metric", "type", "labels", ""]
    return table(header, (_row(family) for family in found))


def _row(family: Family) -> list[str]:
    return [code(family.name), family.kind, "; ".join(_labels(family)), family.help_text]


def _labels(family: Family) -> Iterator[str]:
    for name, values in family.labels.items():
        is_open = name in OPEN_LABELS and not (name == "topic" and len(values) > 1)
        yield code(name) if is_open else f"{code(name)}: {', '.join(values)}"
