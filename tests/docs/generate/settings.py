"""docs/reference/settings.md, from the tables of settings in the code."""

from prometheus_client import CollectorRegistry

from sbic.gateway.access import GatewayMetrics as GatewayMetrics
from sbic.gateway.config import GATEWAY_SPECS, TOKEN, TOKEN_FILE
from sbic.integrations.label_studio_push import PushMetrics
from sbic.integrations.sink import SinkMetrics
from sbic.project.revision import FIRST
from sbic.project.security import VARIABLES
from sbic.project.settings import SPECS, Settings, Spec, variable
from sbic.runtime.app import PipelineApp
from sbic.runtime.metrics import Lag, LagCollector
from sbic.wire.seal import KEY_BYTES, Seal
from tests.docs.generate.markdown import code, page, shown_value, table

INTRODUCTION = """\
Every setting is an environment variable, and also a flag of the commands that use it:
`SBIC_WEB_PORT` is `--web-port`. A flag takes precedence over its variable. `sbic COMMAND --help`
lists the flags of a command. A misspelt `SBIC_*` variable is reported, with the nearest name.
"""
PROJECT = """\
## Settings of a project

These decide what the numbers are, which tasks close and who gets which, so they belong to the
project and not to an instance. `sbic topics`, or the first `sbic run`, writes them to the topic
`sbic.project`, and everything reads them from there: a variable or a flag is for a new project. An
instance that is given another value later logs a warning and uses the project's; a tool is refused,
with a line for each difference. `sbic project set NAME=VALUE` changes them.
"""
INSTANCE = """\
## Settings of a process

Each instance, gateway or tool reads these when it starts.
"""
GATEWAY = f"""\
## Settings of the gateway

In addition to `SBIC_BROKER`, `SBIC_PREFIX` and those of the log. The flag of `SBIC_GATEWAY_PORT`
is `--port`, and so on. Tokens are environment variables only, `{TOKEN}` or `{TOKEN_FILE}`:
[gateway.md](../gateway.md#authentication).
"""
CONNECTION = """\
## Connecting to Kafka

Environment variables only, since a flag would show a secret in the process list; every command
reads them. [security.md](../security.md) explains each.
"""


def settings_page() -> str:
    """The page."""
    of_project = [spec for spec in SPECS.values() if spec.scope == "project"]
    of_process = [spec for spec in SPECS.values() if spec.scope == "process"]
    return page(
        "Settings",
        INTRODUCTION,
        PROJECT,
        table(
            ["variable", "default", "value", "meaning", "to change it later"],
            ([*_row(spec), _how_to_change(spec)] for spec in of_project),
        ),
        INSTANCE,
        table(["variable", "default", "value", "meaning"], map(_row, of_process)),
        GATEWAY,
        table(["variable", "default", "value", "meaning"], map(_row, GATEWAY_SPECS.values())),
        CONNECTION,
        "".join(f"- `{name}`\n" for name in VARIABLES),
    )


def _row(spec: Spec) -> list[str]:
    text, _, default = spec.help.partition("  [default: ")
    value = "none" if spec.default == () else code(shown_value(spec.default))
    return [code(variable(spec.full_name)), default.rstrip("]") or value, spec.needs, text]


def _how_to_change(spec: Spec) -> str:
    return {
        "at once": "`sbic project set`, at once",
        "restart": "`sbic project set`; instances restart",
        "recount": "`sbic project set --recount`",
        "never": spec.instead,
    }[spec.change]


# The metrics of an instance, a gateway, a sink and a push that are not running.
#
# A metric without a value does not show which labels it has, so each that has none before the first
# record or request gets one here.


def instance_registries() -> list[CollectorRegistry]:
    """All metrics of an instance with a budget, and its lags as if it read one partition."""
    lags = CollectorRegistry()
    lags.register(LagCollector(lambda: [Lag("sbic.labels", 0, 0, 0.0)]))
    return [
        PipelineApp(Settings(budget=1000), FIRST, Seal(bytes(KEY_BYTES))).web_port.registry,
        lags,
    ]


def gateway_registries() -> list[CollectorRegistry]:
    """All metrics of a gateway that has answered a request."""
    metrics = GatewayMetrics()
    metrics.answered("/labels", 200, 0.001)
    for kind in ("labels", "tasks", "workers", "requests"):
        metrics.sent(kind, 0)
    metrics.connections(lambda: 0)
    return [metrics.registry]


def sink_registries() -> list[CollectorRegistry]:
    """All metrics of a sink."""
    return [SinkMetrics().registry]


def push_registries() -> list[CollectorRegistry]:
    """All metrics of a push that follows."""
    return [PushMetrics().registry]
