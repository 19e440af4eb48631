"""`sbic infer`: from a file of labels to an estimate of every task."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import click

from pipeline.cli.errors import BadInput
from pipeline.inference.registry import ALGORITHMS

if TYPE_CHECKING:
    from pipeline.inference.algorithm import Estimate, Prior
    from pipeline.inference.labels import Ints, Labels


@click.command(short_help="Estimate every task of a file of labels.")
@click.argument("labels_path", metavar="LABELS.csv")
@click.option(
    "--algorithm",
    type=click.Choice(tuple(ALGORITHMS)),
    default="fast-sbic",
    show_default=True,
)
@click.option("--alpha", type=float, default=2.0, show_default=True)
@click.option("--beta", type=float, default=1.0, show_default=True)
@click.option(
    "--prior", "q", type=float, default=0.5, show_default=True, help="The probability of +1."
)
@click.option(
    "--seed",
    type=click.IntRange(min=0),
    default=0,
    show_default=True,
    help="For mc and --shuffles: the same seed gives the same result.",
)
@click.option("--truth", "truth_path", metavar="TRUTH.csv", help="Tell the error on these tasks.")
@click.option(
    "--shuffles",
    type=click.IntRange(min=1),
    metavar="N",
    help="With --truth: also the mean error over N random orders and its standard error.",
)
@click.option("-o", "--output", metavar="OUT.csv", help="Write there, not to standard output.")
def command(
    labels_path: str,
    algorithm: str,
    alpha: float,
    beta: float,
    q: float,
    seed: int,
    truth_path: str | None,
    shuffles: int | None,
    output: str | None,
) -> None:
    """Estimate every task of a file of labels; `-` is standard input.

    LABELS.csv has the columns task, worker and label in any order; a label is 1 or -1, and 0 is a
    skip. Of a worker's several labels for one task the first counts. A worker's accuracy is taken
    to be Beta(alpha, beta).

    The output has task, log_odds, probability (of +1) and prediction (1, -1, or 0 for a tie), in
    order of first appearance. majority, kos and te have no log_odds and no probability.

    TRUTH.csv has the columns task and truth. The error counts a tie half.

    \b
    Examples:
      sbic infer labels.csv
      sbic infer labels.csv --algorithm sorted-sbic -o estimates.csv
      sbic infer labels.csv --truth truth.csv --shuffles 100 -o estimates.csv
    """
    from pipeline.files.errors import BadFile

    prior = prior_of(alpha, beta, q)
    check_usage(labels_path, truth_path, shuffles)
    try:
        target = target_of(output, inputs=(labels_path, truth_path))
        labels = read(labels_path)
        truth = known_truth(labels, truth_path) if truth_path else None
        estimate = estimated(algorithm, labels, prior, seed)
        notes = [*notes_on_labels(labels)]
        if truth:
            notes += notes_on_error(estimate, truth)
            if shuffles:
                notes.append(
                    shuffles_note(algorithm, labels, prior, truth.of_tasks, seed, shuffles)
                )
        write(labels, estimate, target)
    except BadFile as error:
        raise BadInput(str(error)) from error
    for note in notes:
        click.echo(note, err=True)


def prior_of(alpha: float, beta: float, q: float) -> "Prior":
    """The prior, if there is one with these numbers."""
    from pipeline.inference.algorithm import Prior

    try:
        return Prior(alpha, beta, q)
    except ValueError as error:
        raise click.UsageError(str(error)) from error


def check_usage(labels_path: str, truth_path: str | None, shuffles: int | None) -> None:
    """Refuse options that do not go together."""
    if shuffles and not truth_path:
        raise click.UsageError("--shuffles needs --truth: it tells the error over random orders")
    if labels_path == truth_path == "-":
        raise click.UsageError("only one of LABELS.csv and --truth can be standard input")


def target_of(output: str | None, inputs: tuple[str | None, ...]) -> Path | None:
    """The file to write, if any; never one of the inputs, and found bad before the work begins."""
    from pipeline.files.atomic import check_writable

    if output is None or output == "-":
        return None
    target = Path(output)
    check_writable(target)
    for path in inputs:
        if path and Path(path).exists() and target.exists() and target.samefile(path):
            raise click.UsageError(f"the output {output} would replace the input {path}")
    return target


def read(path: str) -> "Labels":
    """The labels, behind a progress bar."""
    from pipeline.files.labels import read_labels
    from pipeline.progress import progress

    with progress("Reading"):
        return read_labels(path)


class Truth(NamedTuple):
    """The truth of each task (0 where it is not known), and how many more the file has."""

    of_tasks: "Ints"
    without_labels: int


def known_truth(labels: "Labels", path: str) -> Truth:
    """What the file says of the tasks that have labels."""
    from pipeline.files.errors import BadFile
    from pipeline.files.labels import read_truth, truth_of

    truth = read_truth(path)
    of_tasks = truth_of(labels, truth)
    if not of_tasks.any():
        raise BadFile(path, "has the truth of none of the tasks that have labels")
    return Truth(of_tasks, len(truth.keys() - set(labels.task_names)))


def estimated(algorithm: str, labels: "Labels", prior: "Prior", seed: int) -> "Estimate":
    """What the algorithm says of the labels in the order of the file."""
    import numpy as np

    from pipeline.inference.algorithm import Estimate
    from pipeline.progress import progress

    with progress(f"Running {algorithm} on {len(labels):,} labels"):
        estimate = ALGORITHMS[algorithm].load()(labels, prior, np.random.default_rng(seed))
    assert isinstance(estimate, Estimate)
    return estimate


def notes_on_labels(labels: "Labels") -> Iterator[str]:
    """What was in the file and not counted."""
    if labels.repeats:
        yield f"repeats not counted (a worker's first label for a task counts): {labels.repeats}"
    if labels.skips:
        yield f"skips: {labels.skips}"


def notes_on_error(estimate: "Estimate", truth: Truth) -> Iterator[str]:
    """The error, and how many tasks are not in it."""
    known = int((truth.of_tasks != 0).sum())
    if known < len(truth.of_tasks):
        yield f"tasks without a truth, not in the error: {len(truth.of_tasks) - known}"
    if truth.without_labels:
        yield f"truths of tasks without labels, not in the error: {truth.without_labels}"
    yield f"error: {estimate.error(truth.of_tasks):.4f} (tasks: {known})"


def shuffles_note(
    algorithm: str, labels: "Labels", prior: "Prior", truth: "Ints", seed: int, shuffles: int
) -> str:
    """The mean error over random orders, each with a random generator of its own."""
    from statistics import fmean

    import numpy as np

    from pipeline.inference.evaluation import shuffled_error, standard_error
    from pipeline.progress import progress

    function = ALGORITHMS[algorithm].load()
    errors = []
    with progress("Shuffles", total=shuffles) as advance:
        for child in np.random.SeedSequence(seed).spawn(shuffles):
            rng = np.random.default_rng(child)
            errors.append(shuffled_error(function, labels, prior, truth, rng))
            advance()
    spread = standard_error(errors)
    tail = "" if spread is None else f", standard error {spread:.4f}"
    return f"error over random orders: mean {fmean(errors):.4f}{tail} (orders: {shuffles})"


def write(labels: "Labels", estimate: "Estimate", target: Path | None) -> None:
    """The estimate as CSV, whole or not at all."""
    from pipeline.files.atomic import write_atomically
    from pipeline.files.estimates import estimate_csv

    content = estimate_csv(labels, estimate)
    if target:
        write_atomically(target, content)
    else:
        click.get_binary_stream("stdout").write(content)
