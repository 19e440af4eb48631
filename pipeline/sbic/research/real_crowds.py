"""Real crowds in a folder, and the error of every algorithm on them."""

from collections.abc import Iterable, Mapping, Sequence
from functools import cache, partial
from hashlib import sha256
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from sbic.engine.labels import Ints, Labels, Prior, shuffled_error, standard_error
from sbic.files.labels import read_labels, read_truth, truth_of
from sbic.files.tables import BadFile
from sbic.infer.registry import ALGORITHMS, AlgorithmEntry
from sbic.research.outcome import Finding, text_table
from sbic.research.running import Case, Result, run

if TYPE_CHECKING:
    from matplotlib.figure import Figure


# Real crowds in a folder, and the error of an algorithm on them.
#
# A crowd is two files, `NAME.labels.csv` and `NAME.truth.csv`. The prior is the generic one,
# α = 2, β = 1, q = 1/2.


LABELS, TRUTH = ".labels.csv", ".truth.csv"


def names_in(data: Path) -> list[str]:
    """Return the names of all crowds of a folder, from A to Z."""
    names = sorted(path.name.removesuffix(LABELS) for path in data.glob(f"?*{LABELS}"))
    if not names:
        raise BadFile(str(data), f"has no NAME{LABELS}")
    return names


class RealCrowd(NamedTuple):
    """The labels of a crowd and the truth of its tasks."""

    labels: Labels
    truth: Ints


@cache
def real_crowd(data: str, name: str) -> RealCrowd:
    """Return the crowd of this name, read once in each process."""
    labels_path, truth_path = paths(Path(data), name)
    labels = read_labels(str(labels_path))
    truth = truth_of(labels, read_truth(str(truth_path), labels.classes))
    if not (truth >= 0).any():
        raise BadFile(str(truth_path), "has the truth of none of the tasks that have labels")
    return RealCrowd(labels, truth)


def crowd_of_signs(data: str, name: str) -> RealCrowd:
    """Return the crowd of this name; raise `BadFile` if its classes are not -1 and 1."""
    crowd = real_crowd(data, name)
    if not crowd.labels.are_signs:
        path, _ = paths(Path(data), name)
        raise BadFile(str(path), "has classes other than -1 and 1")
    return crowd


def paths(data: Path, name: str) -> tuple[Path, Path]:
    """Return the two files of a crowd."""
    return data / f"{name}{LABELS}", data / f"{name}{TRUTH}"


def fingerprint(data: Path, name: str) -> str:
    """Return a hash of the files of a crowd, so that results of changed files are not reused."""
    digest = sha256()
    for path in paths(data, name):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def cases_of(
    data: Path, name: str, algorithms: Iterable[AlgorithmEntry], shuffles: int
) -> list[Case]:
    """One case for each run of each algorithm on a crowd, with the fingerprint of its files."""
    files = fingerprint(data, name)
    return [
        {"set": name, "files": files, "algorithm": entry.name, "run": number}
        for entry in algorithms
        for number in range(shuffles if entry.is_random else 1)
    ]


def measure(data: str, case: Case, rng: np.random.Generator) -> Result:
    """Return the error of one algorithm on one crowd, in a random order if it depends on that."""
    labels, truth = real_crowd(data, str(case["set"]))
    entry = ALGORITHMS[str(case["algorithm"])]
    if entry.is_random:
        return {"error": shuffled_error(entry.load(), labels, Prior(), truth, rng)}
    return {"error": entry.load()(labels, Prior(), rng).error(truth)}


class TableCell(NamedTuple):
    """The row and column of an error in a table."""

    set: str
    algorithm: str


def errors_by_place(
    cases: Sequence[Case], results: Sequence[Result]
) -> dict[TableCell, list[float]]:
    """Return the errors of all runs of every algorithm on every crowd."""
    errors: dict[TableCell, list[float]] = {}
    for case, result in zip(cases, results, strict=True):
        place = TableCell(str(case["set"]), str(case["algorithm"]))
        errors.setdefault(place, []).append(result["error"])
    return errors


# The error of every algorithm on every crowd of a folder, with any classes.
#
# Results that depend on the order of labels or on chance are means over several shuffles and seeds.
# Algorithms that need the classes -1 and 1 are left out for crowds with other classes.


TITLE = "The share of wrong predictions on real crowds"
BEST, ABSENT = "*", "–"


class CrowdCell(NamedTuple):
    """The error of one algorithm on one crowd, with its standard error over several runs."""

    crowd: str
    tasks: int
    workers: int
    labels: int
    classes: int
    algorithm: str
    error: float
    standard_error: float | None
    runs: int


ErrorByAlgorithm = Mapping[str, float]
"""ErrorByAlgorithm by algorithm, without those that do not fit the crowd."""


def crowds(
    data: Path, out: Path, *, algorithms: Sequence[str], seed: int, jobs: int, shuffles: int
) -> Finding:
    """Run the cases that are not yet in the journal, and build the table."""
    cases = all_cases(data, algorithms, shuffles)
    journal = out / "crowds.jsonl"
    results = run(
        partial(measure, str(data)), cases, seed=seed, jobs=jobs, journal=journal, title="Crowds"
    )
    cells = summary(data, cases, results)
    text = as_text(algorithms, cells)
    if left_out := set(names_in(data)) - {cell.crowd for cell in cells}:
        text += (
            f"\nLeft out, since no algorithm here fits their classes: {', '.join(sorted(left_out))}"
        )
    return Finding("crowds", CrowdCell._fields, cells, text, partial(draw, algorithms, cells))


def all_cases(data: Path, algorithms: Sequence[str], shuffles: int) -> list[Case]:
    """One case for each run of each algorithm on each crowd that it fits."""
    entries = [ALGORITHMS[name] for name in algorithms]
    cases = []
    for name in names_in(data):
        labels = real_crowd(str(data), name).labels
        cases += cases_of(data, name, [e for e in entries if e.takes(labels.are_signs)], shuffles)
    if not cases:
        problem = f"has no crowd with the classes -1 and 1; no others fit {', '.join(algorithms)}"
        raise BadFile(str(data), problem)
    return cases


def summary(data: Path, cases: Sequence[Case], results: Sequence[Result]) -> list[CrowdCell]:
    """Return the mean error of every algorithm on every crowd."""
    cells = []
    for place, runs in errors_by_place(cases, results).items():
        labels = real_crowd(str(data), place.set).labels
        size = labels.tasks, labels.workers, len(labels), len(labels.classes)
        error = fmean(runs), standard_error(runs), len(runs)
        cells.append(CrowdCell(place.set, *size, place.algorithm, *error))
    return cells


def as_text(algorithms: Sequence[str], cells: Sequence[CrowdCell]) -> str:
    """Return a row for each crowd, and the means over the crowds that all algorithms fit."""
    by_crowd = crowd_by_crowd(cells)
    rows = [
        (name, *map(str, own[0][1:5]), *error_texts(algorithms, errors_of(own)))
        for name, own in by_crowd.items()
    ]
    shared = [name for name, own in by_crowd.items() if len(own) == len(algorithms)]
    if shared:
        means = {
            algorithm: fmean(errors_of(by_crowd[name])[algorithm] for name in shared)
            for algorithm in algorithms
        }
        rows.append(("mean", "", "", "", "", *error_texts(algorithms, means)))
    titles = [f"{ALGORITHMS[name].title} " for name in algorithms]
    table = text_table(("", *CrowdCell._fields[1:5], *titles), rows)
    return f"{TITLE}\n\n{table}\n\n{notes(algorithms, cells, shared)}"


def notes(algorithms: Sequence[str], cells: Sequence[CrowdCell], shared: Sequence[str]) -> str:
    """Return the legend of the marks, and the crowds of the means."""
    lines = [f"{BEST} the lowest of its row"]
    needing_signs = [name for name in algorithms if not ALGORITHMS[name].any_classes]
    if len({cell.crowd for cell in cells}) > len(shared):
        lines.append(f"{ABSENT} needs the classes -1 and 1: {', '.join(needing_signs)}")
    if shared:
        lines.append(f"mean: of the crowds that every algorithm fits: {', '.join(shared)}")
    else:
        lines.append("There is no crowd that every algorithm fits, and so no mean.")
    drawn = {cell.algorithm: cell.runs for cell in cells if ALGORITHMS[cell.algorithm].is_random}
    if drawn:
        count = max(drawn.values())
        lines.append(f"Over {count} random orders and seeds: {', '.join(drawn)}")
    return "\n".join(lines)


def crowd_by_crowd(cells: Sequence[CrowdCell]) -> dict[str, list[CrowdCell]]:
    """Return the cells of each crowd."""
    by_crowd: dict[str, list[CrowdCell]] = {}
    for cell in cells:
        by_crowd.setdefault(cell.crowd, []).append(cell)
    return by_crowd


def errors_of(cells: Sequence[CrowdCell]) -> ErrorByAlgorithm:
    """Return the errors on one crowd."""
    return {cell.algorithm: cell.error for cell in cells}


def error_texts(algorithms: Sequence[str], errors: ErrorByAlgorithm) -> list[str]:
    """Return a row of the table: the lowest marked, a dash for an algorithm that does not fit.

    >>> error_texts(["em", "kos", "te"], {"em": 0.25, "te": 0.125})
    ['0.2500 ', '– ', '0.1250*']
    """
    least = min(errors.values())
    return [
        f"{errors[name]:.4f}{BEST if errors[name] == least else ' '}"
        if name in errors
        else f"{ABSENT} "
        for name in algorithms
    ]


def draw(algorithms: Sequence[str], cells: Sequence[CrowdCell], figure: "Figure") -> None:
    """Bars for each crowd, with a star over the lowest."""
    axes = figure.subplots()
    width = 0.86 / len(algorithms)
    by_crowd = crowd_by_crowd(cells)
    x = {
        cell: middle + (number - (len(own) - 1) / 2) * width
        for middle, own in enumerate(by_crowd.values())
        for number, cell in enumerate(own)
    }
    for name in algorithms:
        bars = [cell for cell in cells if cell.algorithm == name]
        if not bars:
            continue
        height, spread = [cell.error for cell in bars], [cell.standard_error or 0 for cell in bars]
        title = ALGORITHMS[name].title
        axes.bar([x[cell] for cell in bars], height, width, yerr=spread, label=title)
    best = [cell for own in by_crowd.values() for cell in lowest(own)]
    above = [cell.error + (cell.standard_error or 0) + 0.01 for cell in best]
    axes.plot([x[cell] for cell in best], above, "k*", markersize=6, label="the lowest")
    axes.set_xticks(range(len(by_crowd)), [size(own[0]) for own in by_crowd.values()])
    axes.tick_params(axis="x", labelsize="small")
    axes.set_ylabel("share of wrong predictions")
    axes.set_title(f"{TITLE}, with the standard error of the mean")
    figure.legend(loc="outside lower center", ncols=6)


def lowest(cells: Sequence[CrowdCell]) -> list[CrowdCell]:
    """Return the cells with the lowest error."""
    least = min(cell.error for cell in cells)
    return [cell for cell in cells if cell.error == least]


def size(cell: CrowdCell) -> str:
    """Return the name and size of a crowd, in three short lines."""
    return (
        f"{cell.crowd}\n{cell.tasks} tasks, {cell.workers} workers\n"
        f"{cell.labels} labels, {cell.classes} classes"
    )
