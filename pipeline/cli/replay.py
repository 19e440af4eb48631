"""`sbic replay`: sends the labels of a file to the pipeline."""

from typing import TYPE_CHECKING

import click

from pipeline.cli.errors import BadInput
from pipeline.cli.options import given_options
from pipeline.cli.reading import of_project, reading_options
from pipeline.files.reading import Reading
from pipeline.project.given import Given
from pipeline.settings import Settings

if TYPE_CHECKING:
    from pipeline.kafka.sending import Label
    from pipeline.transfer.replay import Replayed


@click.command(short_help="Send the labels of a file to the pipeline.")
@click.argument("path", metavar="LABELS.csv")
@click.option(
    "--rate", type=click.FloatRange(min=0, min_open=True), metavar="N", help="Labels per second."
)
@click.option("--shuffle", is_flag=True, help="Send them in a random order.")
@click.option(
    "--seed",
    type=click.IntRange(min=0),
    metavar="N",
    help="For --shuffle: the same seed gives the same order.  [default: 0]",
)
@click.option("--wait", is_flag=True, help="Wait until all of them are counted.")
@click.option(
    "--timeout",
    type=click.FloatRange(min=0, min_open=True),
    metavar="SECONDS",
    help="For --wait: give up after so long without a label counted.  [default: never]",
)
@reading_options(
    "task",
    "worker",
    "label",
    example="task=HITId,worker=WorkerId,label=Answer",
    classes=False,
)
@given_options("broker", "prefix", "classes")
def command(
    given: Given,
    reading: Reading,
    path: str,
    rate: float | None,
    shuffle: bool,
    seed: int | None,
    wait: bool,
    timeout: float | None,
) -> None:
    """Send the labels of a file to the pipeline; `-` is standard input.

    LABELS.csv has the columns task, worker and label, in any order and any case, separated by
    commas, semicolons or tabs; or it is JSON Lines. gzip and UTF-16 are detected. A label is one of
    the classes of the project: 1 or -1 (0 is a skip; --positive yes --negative no maps two other
    labels), or one of its names. An empty label is a skip. Nothing is sent if anything in the file
    is wrong. It is safe to send a file again: a label that was sent before counts once.

    With --wait the command returns when every label is counted in its task's posterior, including
    repeats, which change nothing, but not skips. If it gives up, the exit status is 1.

    Each worker's labels are counted in the order of the file. Those of different workers may be
    counted in another order, since they are in different partitions. With fast-sbic the weight of
    an answer depends on the answers before it, so results differ a little from run to run; with
    settled they converge to the same. `sbic infer` keeps the order of the file.

    \b
    Examples:
      sbic replay labels.csv --wait
      sbic replay labels.csv --rate 500 --shuffle --seed 7
      sbic replay answers.csv.gz --positive yes --negative no --skip unsure
      sbic replay pets.csv --prefix pets --wait
      printf 'task,worker,label\\nt1,ann,1\\n' | sbic replay - --wait
    """
    from pipeline.cli.connected import in_project, run_connected
    from pipeline.files.errors import BadFile
    from pipeline.transfer.replay import GaveUp, Replayed, replay

    if seed is not None and not shuffle:
        raise click.UsageError("--seed needs --shuffle: it chooses the random order")
    if timeout is not None and not wait:
        raise click.UsageError("--timeout needs --wait: it limits the waiting")
    settings = in_project(given)
    try:
        labels = labels_of(path, reading, settings)
    except BadFile as error:
        raise BadInput(str(error)) from None
    if shuffle:
        from random import Random

        Random(seed or 0).shuffle(labels)
    done = Replayed()
    try:
        run_connected(
            replay(settings, labels, done, rate=rate, wait=wait, patience=timeout, note=note)
        )
    except GaveUp as error:
        raise click.ClickException(str(error)) from None
    except KeyboardInterrupt:
        note(left_undone(done, len(labels)))
        raise click.Abort from None
    note(summary(done))
    if skips := sum(each.label == 0 for each in labels):
        note(f"skips: {skips:,}")
    if repeats := repeats_in(labels) if done.repeats is None else done.repeats:
        where = "within the file" if done.repeats is None else "that were given before"
        note(f"repeats: {repeats:,} (answers {where}; each counts once)")


def labels_of(path: str, reading: Reading, settings: Settings) -> list["Label"]:
    """All labels of the file, in order, checked, with values as they are on the wire."""
    from pipeline.files.errors import BadFile, shortened
    from pipeline.files.labels import label_rows
    from pipeline.files.source import read_source
    from pipeline.kafka.sending import Label
    from pipeline.progress import progress
    from pipeline.records.bad import ID_MAX_BYTES

    classes = settings.crowd_classes
    reading = of_project(reading, classes)
    with progress("Reading"):
        source = read_source(path)
        rows = label_rows(source, reading)
    if classes.is_signs and rows.classes != classes.names:
        raise BadFile(source.name, other_classes(rows.classes, settings.prefix))
    for name in {*rows.tasks, *rows.workers}:
        if (size := len(name.encode())) > ID_MAX_BYTES:
            problem = f"the id '{shortened(name)}' has {size} bytes, more than {ID_MAX_BYTES}"
            raise BadFile(source.name, problem)
    label_of: dict[int | None, int | str] = {None: 0, **dict(enumerate(classes.labels))}
    labels = map(label_of.__getitem__, rows.answers)
    return list(map(Label, rows.tasks, rows.workers, labels))


def other_classes(found: tuple[str, ...], prefix: str) -> str:
    """The error for a file with classes other than -1 and 1, and the two ways out.

    >>> other_classes(("cat", "dog"), "pets")
    'has the labels cat, dog, but the classes of the project are -1 and 1: map two of them with \
--positive and --negative (and others with --skip), or, while it has no labels, give the project \
these classes: sbic project set --prefix pets classes=cat,dog'
    """
    from pipeline.files.errors import shortened

    names = [*map(shortened, found[:5]), *(["..."] if found[5:] else [])]
    return (
        f"has the labels {', '.join(names)}, but the classes of the project are -1 and 1: map two "
        "of them with --positive and --negative (and others with --skip), or, while it has no "
        "labels, give the project these classes: "
        f"sbic project set --prefix {prefix} classes={','.join(names)}"
    )


def repeats_in(labels: list["Label"]) -> int:
    """How many labels repeat an earlier answer of the same worker to the same task.

    >>> from pipeline.kafka.sending import Label
    >>> given = ("t1", "ann", 1), ("t1", "bob", 1), ("t1", "ann", 1), ("t1", "bob", 0)
    >>> repeats_in([Label(*each) for each in given])
    1
    """
    answers = [(each.task, each.worker) for each in labels if each.label != 0]
    return len(answers) - len(set(answers))


def left_undone(done: "Replayed", labels: int) -> str:
    """What Ctrl-C left undone, and how to continue.

    >>> from pipeline.transfer.replay import Replayed
    >>> left_undone(Replayed(labels=3000), 8000)
    'Kafka has acknowledged 3,000 of 8,000 labels. To continue, run the same command again: labels \
that are sent twice count once'
    >>> left_undone(Replayed(labels=8000, uncounted=10, sending_seconds=1.0), 8000)
    'all 8,000 labels were sent; 10 are not counted yet, and will be without this command'
    """
    if done.sending_seconds is None:
        return (
            f"Kafka has acknowledged {done.labels:,} of {labels:,} labels. To continue, run the "
            "same command again: labels that are sent twice count once"
        )
    return (
        f"all {labels:,} labels were sent; {done.uncounted:,} are not counted yet, and will be "
        "without this command"
    )


def summary(done: "Replayed") -> str:
    """How many labels were sent, how fast, and how long counting took."""
    seconds = done.sending_seconds or 1e-9
    text = (
        f"labels sent: {done.labels:,} in {seconds:.2f} s "
        f"({done.labels / seconds:,.0f} labels per second)"
    )
    if done.counting_seconds is None:
        return text
    return (
        f"{text}; all counted after {done.counting_seconds:.2f} s "
        f"({done.labels / done.counting_seconds:,.0f} labels per second)"
    )


def note(text: str) -> None:
    """Print a line for the user to standard error."""
    click.echo(text, err=True)
