"""What the Grafana dashboard asks Prometheus for."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

DASHBOARD = json.loads(
    (Path(__file__).parent.parent.parent / "deploy/grafana/sbic.json").read_text()
)
VARIABLES = {"$instance": ".*", "$prefix": ".*", "$__rate_interval": "1m"}


class Query(NamedTuple):
    """A query as Grafana sends it, and the labels that its legend shows."""

    panel: str
    expression: str
    legend_labels: set[str]


def queries() -> Iterator[Query]:
    """All queries of all panels."""
    for panel in DASHBOARD["panels"]:
        for target in panel.get("targets", []):
            labels = set(re.findall(r"{{(\w+)}}", target["legendFormat"]))
            yield Query(panel["title"], filled_in(target["expr"]), labels)


def filled_in(expression: str) -> str:
    """An expression with values for Grafana's variables."""
    for name, value in VARIABLES.items():
        expression = expression.replace(name, value)
    assert "$" not in expression, "a variable that this does not know"
    return expression


def label_values() -> Iterator[tuple[str, str]]:
    """The selector and the label of each variable of the dashboard that asks Prometheus."""
    for variable in DASHBOARD["templating"]["list"]:
        if variable["type"] == "query":
            found = re.fullmatch(r"label_values\((.+), (\w+)\)", variable["definition"])
            assert found
            yield filled_in(found[1]), found[2]
