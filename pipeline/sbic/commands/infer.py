"""`sbic infer`: estimates the truth of every task of a file of labels."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

import click
import numpy as np
from numpy.typing import NDArray

from sbic.classes import Classes
from sbic.commands import tell
from sbic.commands.options import BadInput, reading_options, write_output
from sbic.engine.engine import ClassPrior, Engine
from sbic.engine.labels import (
    AnyEstimate,
    ClassEstimate,
    Ints,
    Labels,
    Prior,
    shuffled_error,
    standard_error,
)
from sbic.engine.ratings import rated
from sbic.files.labels import Reading, read_labels, read_truth, same_but_for_case, truth_of
from sbic.files.roster import roster_table
from sbic.files.tables import BadFile, listed, quoted, read_source
from sbic.files.writing import check_writable, estimate_csv, workers_csv, write_atomically
from sbic.foreign import shown
from sbic.infer import fast_sbic, settled
from sbic.infer.registry import ALGORITHMS, STREAMED, default_algorithm
from sbic.progress import progress
from sbic.project.settings import GivenClassPrior, class_prior_of


class Run(NamedTuple):
    """An algorithm and its parameters."""

    algorithm: str
    prior: Prior
    class_prior: ClassPrior | None
    settles: bool
    seed: int
    gold: Ints | None = None
    grades: Classes | None = None
    groups: Ints | None = None  # of each worker, or -1


class Fit(NamedTuple):
    """The estimate of an algorithm, its engine if it has one, and notes for the user."""

    estimate: AnyEstimate
    engine: Engine | None = None
    notes: tuple[str, ...] = ()


def fitted(run: Run, labels: Labels, rng: np.random.Generator) -> Fit:
    """Run the algorithm on the labels in their order."""
    entry = ALGORITHMS[run.algorithm]
    if entry.settles:
        class_prior, is_ordered = run.class_prior or "learned", run.grades is not None
        engine = settled.fitted(labels, run.prior, class_prior, is_ordered=is_ordered)
        if run.gold is not None:
            for i in np.flatnonzero(run.gold >= 0).tolist():
                engine.set_gold(i, int(run.gold[i]))
        if run.groups is not None:
            engine.set_groups(np.arange(len(run.groups)), run.groups)
        notes: tuple[str, ...] = ()
        if run.settles:
            sweeps = engine.settle(settled.AT_REST).sweeps
            notes = (f"at rest after {sweeps} {'sweep' if sweeps == 1 else 'sweeps'}",)
        return Fit(settled.estimate_of(engine, labels), engine, notes)
    if entry.streams:
        engine = fast_sbic.fitted(labels, run.prior)
        return Fit(fast_sbic.estimate_of(engine, labels), engine)
    return Fit(entry.load()(labels, run.prior, rng))


def notes_on_labels(labels: Labels, algorithm: str, reading: Reading) -> Iterator[str]:
    """Yield notes on the classes, and on labels that are not counted."""
    if reading.answers is None:
        for first, second in same_but_for_case(labels.classes):
            yield (
                f"warning: {quoted(first)} and {quoted(second)} differ only in case, and are two "
                "classes; --ignore-case makes them one"
            )
    if not labels.are_signs:
        yield f"classes: {listed(labels.classes)} (algorithm: {algorithm})"
    if labels.repeats:
        yield f"repeats not counted (a worker's first label for a task counts): {labels.repeats}"
    if labels.skips:
        yield f"skips: {labels.skips}"


def gold_of(labels: Labels, path: str, reading: Reading) -> Ints:
    """Return the class of each task whose truth is in the file, otherwise -1."""
    truth = known_truth(labels, path, reading).of_tasks
    if (truth >= len(labels.classes)).any():
        i = int(np.flatnonzero(truth >= len(labels.classes))[0])
        problem = f"the truth of task {shown(labels.task_names[i])} is a class that no label has"
        raise BadFile(path, f"{problem}: name all classes with --classes")
    return truth


def groups_of(labels: Labels, path: str) -> Ints:
    """Return the number of the group of each worker by a file of the roster, or -1."""
    numbers: dict[str, int] = {}
    said = {said.worker: said.changes.get("group") for said in roster_table(read_source(path)).rows}
    if not said.keys() & {*labels.worker_names}:
        raise BadFile(path, "has none of the workers who gave labels")
    groups = [said.get(name) for name in labels.worker_names]
    return np.array(
        [-1 if group is None else numbers.setdefault(group, len(numbers)) for group in groups]
    )


def summary_of(engine: Engine, labels: Labels, gold: Ints | None) -> Iterator[str]:
    """Yield what can be known of the error, of the worth of the labels, and of the classes."""
    every = np.arange(labels.tasks)
    counts = engine.label_counts(every)
    others = (counts > 0) & (engine.golds(every) < 0)
    p = engine.beliefs(every)
    if others.any():
        share = float(1 - p[others].max(axis=1).mean())
        tasks = int(others.sum())
        checked = 0 if gold is None else int(((gold >= 0) & (counts > 0)).sum())
        by = (
            f"calibrated by {checked:,} gold tasks"
            if checked
            else "estimated from labels alone; --gold with the truth of random tasks checks it"
        )
        yield f"expected wrong: {share:.1%} of {tasks:,} predictions ({by})"
        votes, middle = np.median(engine.effective_votes(every[others])), np.median(counts[others])
        yield f"independent votes of a task: {votes:.1f} of {middle:g} labels, in the median"
    shares = engine.prevalence()
    if shares is not None:
        each = (
            f"{name} {share:.1%} ± {half:.1%}"
            for name, share, half in zip(labels.classes, *shares.tolist(), strict=True)
        )
        yield f"share of each class, with its 90 % interval: {', '.join(each)}"


# The error of `sbic infer` on known truths; imported only when the command runs.


class Truth(NamedTuple):
    """The number of each task's true class or -1, and how many other tasks the file has."""

    of_tasks: Ints
    without_labels: int

    def without(self, gold: NDArray[np.bool_]) -> "Truth":
        """Return the truth of the other tasks: gold is not predicted."""
        return self._replace(of_tasks=np.where(gold, -1, self.of_tasks))


def known_truth(labels: Labels, path: str, reading: Reading) -> Truth:
    """Return the truths in a file, of the tasks that have labels."""
    truth = read_truth(path, labels.classes, reading)
    of_tasks = truth_of(labels, truth)
    if not (of_tasks >= 0).any():
        raise BadFile(path, "has the truth of none of the tasks that have labels")
    return Truth(of_tasks, len(truth.keys() - set(labels.task_names)))


def notes_on_error(
    estimate: AnyEstimate, truth: Truth, labels: Labels, grades: Classes | None = None
) -> Iterator[str]:
    """Yield the error, and how many tasks it leaves out."""
    known = int((truth.of_tasks >= 0).sum())
    if known < labels.tasks:
        yield f"tasks without a truth, not in the error: {labels.tasks - known}"
    if truth.without_labels:
        yield f"truths of tasks without labels, not in the error: {truth.without_labels}"
    if never_given := int((truth.of_tasks >= len(labels.classes)).sum()):
        yield f"truths that no label has, all in the error: {never_given}"
    yield f"error: {estimate.error(truth.of_tasks):.4f} (tasks: {known})"
    if grades is not None and isinstance(estimate, ClassEstimate):
        median = rated(estimate.score / estimate.score.sum(axis=1, keepdims=True)).median
        off = np.abs(median - truth.of_tasks)[truth.of_tasks >= 0]
        yield f"distance of the median from the truth: {off.mean():.4f} grades, in the mean"


def shuffles_note(run: Run, labels: Labels, truth: Ints, shuffles: int) -> str:
    """Return the mean error over random orders, each with a separate random generator."""

    def algorithm(labels: Labels, prior: Prior, rng: np.random.Generator) -> "AnyEstimate":
        return fitted(run, labels, rng).estimate

    errors = []
    with progress("Shuffles", total=shuffles) as advance:
        for child in np.random.SeedSequence(run.seed).spawn(shuffles):
            rng = np.random.default_rng(child)
            errors.append(shuffled_error(algorithm, labels, run.prior, truth, rng))
            advance()
    spread = standard_error(errors)
    tail = "" if spread is None else f", standard error {spread:.4f}"
    return f"error over random orders: mean {fmean(errors):.4f}{tail} (orders: {shuffles})"


CHOICES = [name for name in ALGORITHMS if name != "settled-live"]  # here: --no-settle


class ClassPriorType(click.ParamType):
    """learned, uniform, or a number for each class."""

    name = "prior"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> GivenClassPrior:
        """Return the word, or the numbers."""
        text = str(value).strip()
        try:
            return class_prior_of(text)
        except ValueError as error:
            needed = "learned, uniform, or numbers that add up to 1, as in 0.2,0.3,0.5"
            self.fail(f"must be {needed}, not {shown(text)}: {error}", param, ctx)


@click.command(short_help="Estimate every task of a file of labels.")
@click.argument("labels_path", metavar="LABELS.csv")
@click.option(
    "--algorithm",
    type=click.Choice(CHOICES),
    help=f"[default: {default_algorithm(True)} for -1 and 1, "
    f"{default_algorithm(False)} for other classes]",
)
@click.option("--alpha", type=float, default=2.0, show_default=True)
@click.option("--beta", type=float, default=1.0, show_default=True)
@click.option(
    "--prior",
    "q",
    type=float,
    help="The probability of +1 before any label; not for settled.  [default: 0.5]",
)
@click.option(
    "--class-prior",
    type=ClassPriorType(),
    help="For settled: the probability of each class before any label. learned, uniform, or one "
    "number for each class in order, separated by commas.  [default: learned]",
)
@click.option(
    "--no-settle",
    is_flag=True,
    help="For settled: stop when all labels have arrived, without settling.",
)
@click.option(
    "--seed",
    type=click.IntRange(min=0),
    default=0,
    show_default=True,
    help="For mc and --shuffles: the same seed gives the same result.",
)
@click.option("--truth", "truth_path", metavar="TRUTH.csv", help="Report the error on these tasks.")
@click.option(
    "--gold",
    "gold_path",
    metavar="GOLD.csv",
    help="For settled: the truth of some tasks, drawn at random, which weighs workers and "
    "calibrates the probabilities; columns task and truth.",
)
@click.option(
    "--roster",
    "roster_path",
    metavar="ROSTER.csv",
    help="For settled: which workers err together; columns worker and group. Those of a group "
    "share votes as far as they agree.",
)
@click.option(
    "--summary",
    is_flag=True,
    help="For settled: also report the expected share of wrong predictions, how many independent "
    "votes the labels are worth and, with --gold, how frequent each class is.",
)
@click.option(
    "--shuffles",
    type=click.IntRange(min=1),
    metavar="N",
    help="With --truth: also report the mean error over N random orders.",
)
@click.option("-o", "--output", metavar="OUT.csv", help="Output file.  [default: standard output]")
@click.option(
    "--workers",
    "workers_output",
    metavar="OUT.csv",
    help=f"Also write the estimates of workers to this file; for {' and '.join(STREAMED)}.",
)
@click.option(
    "--scale",
    metavar="LOW..HIGH",
    help="The labels are grades, whole numbers that have an order, such as 1..5.",
)
@click.option(
    "--ordered", is_flag=True, help="The --classes have an order, from the lowest to the highest."
)
@reading_options(
    "task", "worker", "label", "truth", example="task=HITId,worker=WorkerId,label=Answer"
)
def command(
    labels_path: str,
    reading: Reading,
    algorithm: str | None,
    alpha: float,
    beta: float,
    q: float | None,
    class_prior: GivenClassPrior | None,
    no_settle: bool,
    seed: int,
    truth_path: str | None,
    gold_path: str | None,
    roster_path: str | None,
    summary: bool,
    shuffles: int | None,
    output: str | None,
    workers_output: str | None,
    scale: str | None,
    ordered: bool,
) -> None:
    """Estimate every task of a file of labels; `-` is standard input.

    LABELS.csv has the columns task, worker and label, in any order and any case, separated by
    commas, semicolons or tabs; or it is JSON Lines. gzip and UTF-16 are detected. If a worker has
    several labels for a task, the first one counts.

    Labels are 1 and -1, with 0 for a skip, or any others (cat, dog; 0, 1, 2), which are then the
    classes; an empty label is a skip. A file with only the labels 0 and 1 is ambiguous and needs
    --classes 0,1 or --skip 0. Most algorithms need 1 and -1: --positive yes --negative no maps two
    other labels.

    For 1 and -1 the output has task, log_odds, probability (of +1) and prediction (1, -1, or 0 for
    a tie), in order of first appearance. majority, kos and te have no log_odds and no probability.
    Beta(alpha, beta) is the prior of a worker's accuracy.

    settled weighs every label by the final estimate of its worker, and models habits: its result
    does not depend on the order of the file, while fast-sbic weighs a label by what was known when
    it arrived. dawid-skene estimates how often each worker confuses each class with each other.

    For other classes the output has task, prediction (empty for a tie), confidence (the probability
    of the prediction) and p:CLASS for each class in order. For majority, which has no
    probabilities, these are shares of the votes, empty for a task without votes.

    Grades (--scale 1..5, or --classes bad,fair,good --ordered) also have mean, median, and
    interval_low and interval_high: the narrowest interval that has the truth with a probability of
    80 %. settled then expects wrong grades to be near; a label off the scale is an error.

    TRUTH.csv and GOLD.csv have the columns task and truth (0 or empty if it is not known; with
    other classes, empty). A tie counts as a random choice among the tied classes.

    \b
    Examples:
      sbic infer labels.csv
      sbic infer labels.csv --algorithm sorted-sbic -o estimates.csv
      sbic infer labels.csv --truth truth.csv --shuffles 100 -o estimates.csv
      sbic infer answers.csv.gz --positive yes --negative no
      sbic infer batch.csv --columns task=HITId,worker=WorkerId,label=Answer
      sbic infer pets.jsonl --classes cat,dog,bird --skip unsure
      sbic infer ratings.csv --scale 1..5
      sbic infer labels.csv --algorithm settled --workers workers.csv
      sbic infer verdicts.jsonl --algorithm settled --gold gold.csv --summary
      sbic infer verdicts.jsonl --algorithm settled --roster roster.csv
    """
    prior = prior_of(alpha, beta, 0.5 if q is None else q)
    check_usage(labels_path, truth_path, shuffles, reading)
    grades = grades_of(scale, ordered, reading)
    if scale and grades:
        reading = replace(reading, classes=grades.names, skip=(*reading.skip, "0"))
    try:
        inputs = labels_path, truth_path, gold_path, roster_path
        target, workers_target = target_of(output, inputs), target_of(workers_output, inputs)
        labels = read(labels_path, reading)
        name = algorithm or default_algorithm(labels.are_signs)
        gold = gold_of(labels, gold_path, reading) if gold_path else None
        groups = groups_of(labels, roster_path) if roster_path else None
        run = Run(name, prior, class_prior, not no_settle, seed, gold, grades, groups)
        check_choices(run, labels, q, workers_output, needs_rest=summary)
        truth = known_truth(labels, truth_path, reading) if truth_path else None
        if truth and gold is not None:
            truth = truth.without(gold >= 0)
        with progress(f"Running {run.algorithm} on {len(labels):,} labels"):
            fit = fitted(run, labels, np.random.default_rng(seed))
        notes = [*notes_on_labels(labels, run.algorithm, reading), *fit.notes]
        if truth:
            notes += notes_on_error(fit.estimate, truth, labels, run.grades)
            if shuffles:
                notes.append(shuffles_note(run, labels, truth.of_tasks, shuffles))
        if fit.engine and summary:
            notes += summary_of(fit.engine, labels, gold)
        write(estimate_csv(labels, fit.estimate, run.grades), target)
        if fit.engine and workers_output:
            write(workers_csv(labels, fit.engine), workers_target)
    except BadFile as error:
        raise BadInput(str(error)) from error
    for note in notes:
        tell(note)


def prior_of(alpha: float, beta: float, q: float) -> Prior:
    """Return the prior with these parameters; invalid ones are a usage error."""
    try:
        return Prior(alpha, beta, q)
    except ValueError as error:
        raise click.UsageError(str(error)) from error


def grades_of(scale: str | None, ordered: bool, reading: Reading) -> Classes | None:
    """Return the ordered classes that --scale and --ordered say; None without them."""
    if scale is None and not ordered:
        return None
    if scale is not None and reading.answers is not None:
        raise click.UsageError("--scale says what the labels are: leave out --classes and the like")
    if scale is None and reading.classes is None:
        raise click.UsageError("--ordered needs --classes, from the lowest to the highest")
    try:
        return Classes.of_scale(scale) if scale else Classes(reading.classes or (), True)
    except ValueError as error:
        raise click.UsageError(f"{'--scale' if scale else '--ordered'}: {error}") from None


def check_usage(
    labels_path: str, truth_path: str | None, shuffles: int | None, reading: Reading
) -> None:
    """Refuse options that do not go together."""
    if "truth" in reading.columns and not truth_path:
        raise click.UsageError("--columns truth=... needs --truth: it is a column of that file")
    if shuffles and not truth_path:
        raise click.UsageError("--shuffles needs --truth: it reports the error over random orders")
    if labels_path == truth_path == "-":
        raise click.UsageError("only one of LABELS.csv and --truth can be standard input")


def target_of(output: str | None, inputs: tuple[str | None, ...]) -> Path | None:
    """Return the file to write, if any, checked before the work begins; never one of the inputs."""
    if output is None or output == "-":
        return None
    target = Path(output)
    check_writable(target)
    for path in inputs:
        if path and Path(path).exists() and target.exists() and target.samefile(path):
            raise click.UsageError(f"the output {output} would replace the input {path}")
    return target


def read(path: str, reading: Reading) -> Labels:
    """Read the labels, with a progress bar."""
    with progress("Reading"):
        return read_labels(path, reading)


def check_choices(
    run: "Run",
    labels: Labels,
    q: float | None,
    workers_output: str | None,
    *,
    needs_rest: bool,
) -> None:
    """Refuse classes and options that do not fit the algorithm."""
    entry = ALGORITHMS[run.algorithm]
    if not entry.takes(labels.are_signs):
        able = " or ".join(name for name in CHOICES if ALGORITHMS[name].any_classes)
        raise BadInput(
            f"{run.algorithm} needs labels that are -1 and 1, and these are "
            f"{listed(labels.classes)}: map two of them with --positive and --negative, or "
            f"use --algorithm {able}"
        )
    if entry.settles and q is not None:
        raise click.UsageError(f"{entry.name} takes --class-prior instead of --prior")
    if not entry.settles and (run.class_prior is not None or not run.settles):
        raise click.UsageError(
            f"--class-prior and --no-settle are for --algorithm settled, not {run.algorithm}"
        )
    must_rest = run.gold is not None or run.groups is not None or needs_rest
    if must_rest and not (entry.settles and run.settles):
        raise click.UsageError(
            "--gold, --roster and --summary are for --algorithm settled, at rest, not "
            f"{run.algorithm}"
        )
    if workers_output and not entry.streams:
        able = " or ".join(STREAMED)
        raise click.UsageError(f"--workers needs {able}, not {run.algorithm}")
    given = run.class_prior
    if isinstance(given, tuple) and len(given) != len(labels.classes):
        raise click.UsageError(
            f"--class-prior has {len(given)} numbers, and there are {len(labels.classes)} classes: "
            f"{listed(labels.classes)}"
        )


def write(content: bytes, target: Path | None) -> None:
    """Write to the file, completely or not at all, or to standard output."""
    if target:
        write_atomically(target, content)
    else:
        write_output(content)
