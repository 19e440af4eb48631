"""`sbic export`: the current posteriors or workers as CSV."""

from pathlib import Path

import click

from pipeline.cli.errors import BadInput
from pipeline.cli.options import settings_options
from pipeline.settings import Settings


@click.command(short_help="Write the current posteriors or workers as CSV.")
@click.argument("what", type=click.Choice(("posteriors", "workers")))
@click.option("-o", "--output", metavar="OUT.csv", help="Write there, not to standard output.")
@settings_options("broker", "prefix")
def command(settings: Settings, what: str, output: str | None) -> None:
    """Write the current posteriors or workers as CSV, one row for each task or worker.

    It is what the topic has at the moment; the file is written whole or not at all.

    \b
    posteriors, sorted by task:
      task         its id
      log_odds     of +1
      probability  of +1
      prediction   1, -1, or 0 for a tie
      labels       how many are counted
      status       open or closed
      reason       why it is closed
      updated_at   timestamp of the newest label counted, in milliseconds

    \b
    where classes have names, in place of log_odds, probability and prediction:
      prediction   the most probable class; nothing before any label, or for a tie
      confidence   its probability
      p:CLASS      the probability of each class, in their order

    \b
    workers, sorted by worker:
      worker       their id
      accuracy     the probability that their next label is right
      labels       how many are counted
      correct      how many of those are expected to be right
      gold         how many of those are on gold tasks
      gold_right   how many of the labels on gold tasks are right
      last_seen    timestamp of their newest label or skip, in milliseconds
      theta        under settled: the probability that they know the answer
      habit:CLASS  under settled: how often they say each class if they do not

    \b
    Examples:
      sbic export posteriors
      sbic export workers -o workers.csv
    """
    from pipeline.cli.connected import run_connected
    from pipeline.files.atomic import check_writable, write_atomically
    from pipeline.files.csv_text import csv_bytes
    from pipeline.files.errors import BadFile
    from pipeline.tools.export import EXPORTS, current_table

    target = None if output in (None, "-") else Path(str(output))
    try:
        if target:
            check_writable(target)
        content = csv_bytes(*run_connected(current_table(settings, EXPORTS[what])))
        if target:
            write_atomically(target, content)
        else:
            click.get_binary_stream("stdout").write(content)
    except BadFile as error:
        raise BadInput(str(error)) from None
