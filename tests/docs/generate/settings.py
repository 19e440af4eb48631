"""docs/reference/settings.md, from the tables of settings in the code."""

from dataclasses import Field
from typing import Any

import click

from pipeline.cli.gateway import command as gateway
from pipeline.project.changes import FIXED, OF_THE_PAST
from pipeline.project.revision import PROJECT_SETTINGS
from pipeline.security.security import VARIABLES
from pipeline.settings import SPECS, variable
from tests.docs.generate.markdown import code, page, shown_value, table

INTRODUCTION = """\
Every setting is an environment variable, and also a flag of the commands that use it:
`SBIC_WEB_PORT` is `--web-port`. A flag takes precedence over its variable. `sbic COMMAND --help`
lists the flags of a command. A misspelt `SBIC_*` variable is reported, with the nearest name.
"""

PROJECT = """\
## Settings of a project

These change what the numbers mean, so they belong to the project and not to an instance. `sbic
topics`, or the first `sbic run`, writes them to the topic `sbic.project`. Instances and tools read
them from there; one that is given another value is refused, with a line for each difference.
`sbic project set NAME=VALUE` changes them, and running instances restart themselves.
"""

INSTANCE = """\
## Settings of an instance

Each instance reads these when it starts. Give all instances of a project the same rules for
stopping and blocking, and the gateway too: its page shows them.
"""

GATEWAY = """\
## Settings of the gateway

In addition to `SBIC_BROKER`, `SBIC_PREFIX` and the rules for stopping and blocking. The tokens are
environment variables only: [gateway.md](../gateway.md#authentication).
"""

CONNECTION = """\
## Connecting to Kafka

Environment variables only, since a flag would show a secret in the process list; every command
reads them. [security.md](../security.md) explains each.
"""


def settings_page() -> str:
    """The page."""
    of_project = [SPECS[name] for name in PROJECT_SETTINGS]
    of_instance = [spec for name, spec in SPECS.items() if name not in PROJECT_SETTINGS]
    return page(
        "Settings",
        INTRODUCTION,
        PROJECT,
        table(
            ["variable", "default", "value", "meaning", "to change it later"],
            ([*_row(spec), _how_to_change(spec.name)] for spec in of_project),
        ),
        INSTANCE,
        table(["variable", "default", "value", "meaning"], map(_row, of_instance)),
        GATEWAY,
        table(["variable", "flag", "default", "meaning"], map(_gateway_row, gateway_options())),
        CONNECTION,
        "".join(f"- `{name}`\n" for name in VARIABLES),
    )


def gateway_options() -> list[click.Option]:
    """The options of `sbic gateway` that only it has."""
    return [
        option
        for option in gateway.params
        if isinstance(option, click.Option) and str(option.envvar or "").startswith("SBIC_GATEWAY_")
    ]


def _row(spec: Field[Any]) -> list[str]:
    metadata = spec.metadata
    text, _, default = metadata["help"].partition("  [default: ")
    default = default.rstrip("]") or code(shown_value(spec.default))
    return [code(variable(spec.name)), default, metadata["needs"], text]


def _gateway_row(option: click.Option) -> list[str]:
    text, _, default = (option.help or "").partition("  [default: ")
    value = code(shown_value(option.default)) if option.default else "none"
    return [code(str(option.envvar)), code(option.opts[0]), default.rstrip("]") or value, text]


def _how_to_change(name: str) -> str:
    if name in FIXED:
        return "cannot be changed" if name == "partitions" else "with Kafka's own tools"
    return "`sbic project set --recount`" if name in OF_THE_PAST else "`sbic project set`"
