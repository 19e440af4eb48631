"""docs/reference/settings.md, from the tables of settings in the code."""

from sbic.gateway.config import GATEWAY_SPECS, TOKEN, TOKEN_FILE
from sbic.project.changes import FIXED, OF_THE_PAST
from sbic.project.revision import PROJECT_SETTINGS
from sbic.project.security import VARIABLES
from sbic.project.settings import SPECS, Spec, full_name, variable
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

GATEWAY = f"""\
## Settings of the gateway

In addition to `SBIC_BROKER`, `SBIC_PREFIX` and the rules for stopping and blocking. The flag of
`SBIC_GATEWAY_PORT` is `--port`, and so on. Tokens are environment variables only, `{TOKEN}` or
`{TOKEN_FILE}`: [gateway.md](../gateway.md#authentication).
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
        table(["variable", "default", "value", "meaning"], map(_row, GATEWAY_SPECS.values())),
        CONNECTION,
        "".join(f"- `{name}`\n" for name in VARIABLES),
    )


def _row(spec: Spec) -> list[str]:
    metadata = spec.metadata
    text, _, default = metadata["help"].partition("  [default: ")
    value = "none" if spec.default == () else code(shown_value(spec.default))
    return [code(variable(full_name(spec))), default.rstrip("]") or value, metadata["needs"], text]


def _how_to_change(name: str) -> str:
    if name in FIXED:
        return "cannot be changed" if name == "partitions" else "with Kafka's own tools"
    return "`sbic project set --recount`" if name in OF_THE_PAST else "`sbic project set`"
