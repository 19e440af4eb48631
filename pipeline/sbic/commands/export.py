"""`sbic export`: writes the labels that stand, the posteriors or the workers to a file."""

from collections.abc import Iterator
from pathlib import Path

import click

from sbic.commands.options import BadInput, given_options, in_project, run_connected, write_output
from sbic.files.tables import BadFile, MissingExtra
from sbic.files.writing import (
    check_parquet,
    check_writable,
    csv_parts,
    excel_parts,
    excel_separator,
    jsonl_parts,
    kinds_of,
    parquet_parts,
    write_parts_atomically,
)
from sbic.project.revision import Given
from sbic.project.settings import Settings
from sbic.status.contents import EXPORTS, KINDS, current_records, standing_labels

SEPARATORS = {"comma": ",", "semicolon": ";"}
FORMATS = {".jsonl": "jsonl", ".ndjson": "jsonl", ".parquet": "parquet"}


@click.command(short_help="Write the labels that stand, posteriors or workers.")
@click.argument("what", type=click.Choice(("labels", "posteriors", "workers")))
@click.option("-o", "--output", metavar="FILE", help="Output file.  [default: standard output]")
@click.option(
    "--format",
    "file_format",
    type=click.Choice(("csv", "jsonl", "parquet")),
    help="CSV, JSON Lines with the original records, or Parquet with the columns of CSV, which "
    "needs pip install 'sbic[parquet]'.  [default: by the name of FILE, or csv]",
)
@click.option(
    "--excel",
    is_flag=True,
    help="CSV for a spreadsheet: nothing in it runs as a formula, and umlauts and columns arrive.",
)
@click.option(
    "--separator",
    type=click.Choice(tuple(SEPARATORS)),
    help="For --excel: between cells; with a semicolon, numbers have a decimal comma.  "
    "[default: as Excel in your locale]",
)
@given_options("broker", "prefix")
def command(
    given: Given,
    what: str,
    output: str | None,
    file_format: str | None,
    excel: bool,
    separator: str | None,
) -> None:
    """Write the labels that stand, the current posteriors or the workers.

    The file has the current content of the topics; it is written completely or not at all.

    Plain CSV has every id and class exactly as it is, for programs and for `sbic infer` and `sbic
    replay`. To open a file in Excel or another spreadsheet, use --excel: ids are written by others,
    and a cell that begins with = + - @, a tab or a carriage return could run as a formula, so it
    gets an apostrophe in front.

    \b
    labels, a row for each label that stands, as `sbic infer` and `sbic replay` read them:
      task, worker, label
    Of repeated answers one stands, by the project's setting; labels taken back, skips and
    bad labels are left out.

    \b
    posteriors, sorted by task:
      task         its id
      log_odds     of +1
      probability  of +1
      prediction   1, -1, or 0 for a tie
      labels       how many are counted
      status       open or closed
      reason       why it is closed
      reopened     true if stop rules no longer apply
      gold         true if the truth is known
      evidence     for gold: the log-odds by its labels
      prior        of this task, if it has one
      sources      offset of the last counted label of each partition, as JSON
      updated_at   timestamp of the newest label counted, in milliseconds

    \b
    if classes have names, instead of log_odds, probability and prediction:
      prediction   the most probable class; empty before any label, or for a tie
      confidence   its probability
      p:CLASS      the probability of each class, in their order
    and evidence:CLASS and prior:CLASS, if tasks have them.

    \b
    workers, sorted by worker:
      worker       their id
      accuracy     the probability that their next label is right
      interval_low, interval_high  its 95 % interval
      labels       how many are counted
      correct      how many of those are expected to be right
      gold         how many of those are on gold tasks
      gold_right   how many of the labels on gold tasks are right
      last_seen    timestamp of their newest label or skip, in milliseconds
      theta        with settled: the probability that they know the answer
      habit:CLASS  with settled: how often they give each class if they do not

    \b
    Examples:
      sbic export labels -o labels.csv && sbic infer labels.csv --algorithm settled
      sbic export posteriors --format jsonl | jq .task
      sbic export workers -o workers.jsonl
      sbic export posteriors -o posteriors.parquet
      sbic export posteriors --excel -o for-excel.csv
    """
    target = None if output in (None, "-") else Path(str(output))
    if separator and not excel:
        raise click.UsageError("--separator needs --excel: plain CSV always has commas")
    if excel and (file_format or format_of(target)) != "csv":
        raise click.UsageError("--excel is for CSV, not for JSON Lines or Parquet")
    try:
        if target:
            check_writable(target)
        file_format = file_format or format_of(target)
        if file_format == "parquet":
            check_parquet()
        cells = SEPARATORS[separator] if separator else excel_separator() if excel else None
        # labels are the way out of a project to which partitions were added
        settings = in_project(given, may_have_more_partitions=what == "labels")
        parts = exported(settings, what, file_format, cells)
        if target:
            write_parts_atomically(target, parts)
        else:
            for part in parts:
                write_output(part)
    except (BadFile, MissingExtra) as error:
        raise BadInput(str(error)) from None


def format_of(target: Path | None) -> str:
    """Return the format by the name of a file.

    >>> format_of(Path("labels.jsonl")), format_of(Path("labels.txt")), format_of(None)
    ('jsonl', 'csv', 'csv')
    """
    return FORMATS.get(target.suffix, "csv") if target else "csv"


def exported(
    settings: Settings, what: str, file_format: str, excel_cells: str | None = None
) -> Iterator[bytes]:
    """Return the content of the file in parts; everything is read from Kafka before the first.

    `excel_cells` is the separator of CSV for Excel.
    """
    columns = ("task", "worker", "label")
    if what == "labels":
        labels = run_connected(standing_labels(settings))
        if excel_cells:
            return excel_parts(columns, labels, excel_cells)
        if file_format == "csv":
            return csv_parts(columns, labels)
        if file_format == "parquet":
            label = int if settings.crowd_classes.is_signs else str
            return parquet_parts(columns, (str, str, label), labels)
        return jsonl_parts(dict(zip(columns, label, strict=True)) for label in labels)
    records = run_connected(current_records(settings, EXPORTS[what]))
    if file_format == "jsonl":
        return jsonl_parts(records)
    table = EXPORTS[what].table(settings.crowd_classes, records)
    if file_format == "parquet":
        return parquet_parts(table.columns, kinds_of(*table, KINDS), table.rows)
    return excel_parts(*table, excel_cells) if excel_cells else csv_parts(*table)
