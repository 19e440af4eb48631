"""`sbic infer`: from a file of labels to an estimate of every task."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import click

from pipeline.cli.errors import BadInput
from pipeline.cli.reading import reading_options
from pipeline.files.reading import Reading
from pipeline.inference.registry import (
    ALGORITHMS,
    CLASSES_DEFAULT,
    SIGNS_DEFAULT,
    default_algorithm,
)

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from pipeline.inference.algorithm import AnyEstimate, Prior
    from pipeline.inference.labels import Ints, Labels


@click.command(short_help="Estimate every task of a file of labels.")
@click.argument("labels_path", metavar="LABELS.csv")
@click.option(
    "--algorithm",
    type=click.Choice(tuple(ALGORITHMS)),
    help=f"[default: {SIGNS_DEFAULT} for -1 and 1, {CLASSES_DEFAULT} for other classes]",
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
@reading_options(
    "task", "worker", "label", "truth", example="task=HITId,worker=WorkerId,label=Answer"
)
def command(
    labels_path: str,
    reading: Reading,
    algorithm: str | None,
    alpha: float,
    beta: float,
    q: float,
    seed: int,
    truth_path: str | None,
    shuffles: int | None,
    output: str | None,
) -> None:
    """Estimate every task of a file of labels; `-` is standard input.

    LABELS.csv has the columns task, worker and label, in any order and any case. Commas, semicolons
    or tabs separate them, or it is JSON Lines; gzip and UTF-16 are read too. Of a worker's several
    labels for one task the first counts.

    Labels are 1 and -1, and 0 for a skip, or any others (cat, dog; 0, 1, 2), which are then the
    classes; an empty label is a skip. A file with no labels but 0 and 1 is refused until --classes
    0,1 or --skip 0 says which it is. Most algorithms take only 1 and -1: --positive yes --negative
    no makes two labels that.

    For 1 and -1 the output has task, log_odds, probability (of +1) and prediction (1, -1, or 0 for
    a tie), in order of first appearance. majority, kos and te have no log_odds and no probability.
    A worker's accuracy is taken to be Beta(alpha, beta).

    For other classes it has task, prediction (empty for a tie), confidence (the probability of the
    prediction) and p:CLASS for each class in order. Of majority, which has no probabilities, these
    are the shares of the votes, and empty for a task without votes.

    TRUTH.csv has the columns task and truth (0 or empty where it is not known; with other classes,
    empty). The error counts a tie as if one of the tied were drawn.

    \b
    Examples:
      sbic infer labels.csv
      sbic infer labels.csv --algorithm sorted-sbic -o estimates.csv
      sbic infer labels.csv --truth truth.csv --shuffles 100 -o estimates.csv
      sbic infer answers.csv.gz --positive yes --negative no
      sbic infer batch.csv --columns task=HITId,worker=WorkerId,label=Answer
      sbic infer pets.jsonl --classes cat,dog,bird --skip unsure
    """
    from pipeline.files.errors import BadFile

    prior = prior_of(alpha, beta, q)
    check_usage(labels_path, truth_path, shuffles, reading)
    try:
        target = target_of(output, inputs=(labels_path, truth_path))
        labels = read(labels_path, reading)
        algorithm = algorithm or default_algorithm(labels)
        check_classes(algorithm, labels)
        truth = known_truth(labels, truth_path, reading) if truth_path else None
        estimate = estimated(algorithm, labels, prior, seed)
        notes = [*notes_on_labels(labels, algorithm)]
        if truth:
            notes += notes_on_error(estimate, truth, labels)
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


def check_usage(
    labels_path: str, truth_path: str | None, shuffles: int | None, reading: Reading
) -> None:
    """Refuse options that do not go together."""
    if "truth" in reading.columns and not truth_path:
        raise click.UsageError("--columns truth=... needs --truth: it is a column of that file")
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


def read(path: str, reading: Reading) -> "Labels":
    """The labels, behind a progress bar."""
    from pipeline.files.labels import read_labels
    from pipeline.progress import progress

    with progress("Reading"):
        return read_labels(path, reading)


def check_classes(algorithm: str, labels: "Labels") -> None:
    """Refuse classes that the algorithm does not take, and say what does."""
    if labels.are_signs or ALGORITHMS[algorithm].any_classes:
        return
    able = ", ".join(entry.name for entry in ALGORITHMS.values() if entry.any_classes)
    raise BadInput(
        f"{algorithm} needs labels that are -1 and 1, and these are {listed(labels.classes)}: make"
        f" two of them that with --positive and --negative, or take --algorithm {able}"
    )


def listed(classes: tuple[str, ...]) -> str:
    """The first of the classes, and how many more there are."""
    from pipeline.files.errors import shortened

    more = f" and {len(classes) - 10} more" if len(classes) > 10 else ""
    return ", ".join(map(shortened, classes[:10])) + more


class Truth(NamedTuple):
    """The truth of each task, whether it is known, and how many more the file has."""

    of_tasks: "Ints"
    is_known: "NDArray[np.bool_]"
    without_labels: int


def known_truth(labels: "Labels", path: str, reading: Reading) -> Truth:
    """What the file says of the tasks that have labels."""
    from pipeline.files.errors import BadFile
    from pipeline.files.truth import read_truth, truth_of

    truth = read_truth(path, labels.classes, reading)
    of_tasks = truth_of(labels, truth)
    is_known = of_tasks != 0 if labels.are_signs else of_tasks >= 0
    if not is_known.any():
        raise BadFile(path, "has the truth of none of the tasks that have labels")
    return Truth(of_tasks, is_known, len(truth.keys() - set(labels.task_names)))


def estimated(algorithm: str, labels: "Labels", prior: "Prior", seed: int) -> "AnyEstimate":
    """What the algorithm says of the labels in the order of the file."""
    import numpy as np

    from pipeline.progress import progress

    with progress(f"Running {algorithm} on {len(labels):,} labels"):
        return ALGORITHMS[algorithm].load()(labels, prior, np.random.default_rng(seed))


def notes_on_labels(labels: "Labels", algorithm: str) -> Iterator[str]:
    """What was found in the file, and what was not counted."""
    if not labels.are_signs:
        yield f"classes: {listed(labels.classes)} (algorithm: {algorithm})"
    if labels.repeats:
        yield f"repeats not counted (a worker's first label for a task counts): {labels.repeats}"
    if labels.skips:
        yield f"skips: {labels.skips}"


def notes_on_error(estimate: "AnyEstimate", truth: Truth, labels: "Labels") -> Iterator[str]:
    """The error, and how many tasks are not in it."""
    known = int(truth.is_known.sum())
    if known < labels.tasks:
        yield f"tasks without a truth, not in the error: {labels.tasks - known}"
    if truth.without_labels:
        yield f"truths of tasks without labels, not in the error: {truth.without_labels}"
    if never_given := int((truth.of_tasks >= len(labels.classes)).sum()):
        yield f"truths that no label has, all in the error: {never_given}"
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


def write(labels: "Labels", estimate: "AnyEstimate", target: Path | None) -> None:
    """The estimate as CSV, whole or not at all."""
    from pipeline.files.atomic import write_atomically
    from pipeline.files.estimates import estimate_csv

    content = estimate_csv(labels, estimate)
    if target:
        write_atomically(target, content)
    else:
        click.get_binary_stream("stdout").write(content)
