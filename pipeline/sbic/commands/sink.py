"""`sbic sink`: keeps the tables of a database up to date."""

import logging
import os

import click

from sbic.commands.options import (
    BadInput,
    given_options,
    metrics_options,
    run_connected,
    serve_metrics,
    sink_name_option,
    until_stopped,
)
from sbic.project.revision import Given
from sbic.project.security import BadSecurity, read_secret
from sbic.project.settings import SPECS, variable

TARGET = variable("sink")
LOGGING = ("log_level", "log_format")


@click.command(short_help="Keep tables of PostgreSQL or SQLite up to date.")
@click.argument("target", required=False, metavar="[TARGET]")
@click.option("--schema", metavar="NAME", help="PostgreSQL's schema.  [default: the prefix]")
@click.option("--once", is_flag=True, help="Write what the topics have now, and end.")
@sink_name_option("postgresql or sqlite")
@metrics_options
@given_options("broker", "prefix", "log_level", "log_format")
def command(
    given: Given,
    target: str | None,
    schema: str | None,
    once: bool,
    name: str | None,
    metrics_port: int | None,
    metrics_host: str,
) -> None:
    """Keep posteriors, workers and assignments up to date in tables, until SIGTERM.

    TARGET is postgresql://USER@HOST:PORT/DATABASE, with pip install 'sbic[postgres]', or
    sqlite:FILE. The tables posteriors, workers and assignments, the view truth and the offsets of
    what is in them are created on the first run: in PostgreSQL in a schema named like the prefix.

    A password is never given here, where everybody could see it: libpq takes PGPASSWORD,
    PGPASSFILE or ~/.pgpass, and SBIC_SINK may have the whole URL in place of TARGET.

    Every record is in the tables once: the offsets change in the same transaction. The command may
    be killed and started again at any time. After a recount, a reset or a new key it clears what
    is no longer true and fills it again.

    sbic status and the page show how far behind it is: give each of several sinks a --name.

    \b
    Examples:
      sbic sink sqlite:crowd.db --once && sqlite3 crowd.db 'SELECT * FROM truth'
      sbic sink postgresql://ann@db.example.org/crowds --metrics-port 6067
      SBIC_SINK_FILE=/run/secrets/sink sbic sink --prefix birds
    """

    from sbic.integrations.database import BadTarget, DatabaseTrouble, opened
    from sbic.integrations.sink import SinkMetrics, fill, keep
    from sbic.runtime.logs import set_up_logging

    level, style = (given.values.get(name, SPECS[name].default) for name in LOGGING)
    set_up_logging(level, style)
    logging.getLogger("aiokafka").setLevel(logging.CRITICAL)  # it would repeat our messages
    prefix = given.place.prefix
    try:
        if target is not None:
            database = opened(target, prefix, schema, shown=True)
        elif secret := read_secret(TARGET, {k: v for k, v in os.environ.items() if v}):
            database = opened(secret.reveal(), prefix, schema, shown=False)
        else:
            raise click.UsageError(f"name a TARGET, say sqlite:crowd.db, or set {TARGET}")
        if once:
            run_connected(fill(given, database))
            return
        metrics = SinkMetrics()
        if metrics_port is not None:
            serve_metrics(metrics.registry, metrics_host, metrics_port)
        run_connected(until_stopped(keep(given, database, metrics, name or database.kind)))
    except (BadTarget, BadSecurity) as error:
        raise BadInput(str(error)) from None
    except DatabaseTrouble as error:
        raise click.ClickException(str(error)) from None
