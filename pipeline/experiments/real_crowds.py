"""Real crowds in a folder, and the error of an algorithm on them.

A crowd is two files, `NAME.labels.csv` and `NAME.truth.csv`. The prior is the generic one,
α = 2, β = 1, q = 1/2.
"""

from collections.abc import Iterable, Sequence
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

import numpy as np

from pipeline.experiments.journal import Case, Result
from pipeline.files.errors import BadFile
from pipeline.files.labels import read_labels
from pipeline.files.truth import read_truth, truth_of
from pipeline.inference.algorithm import Prior
from pipeline.inference.evaluation import shuffled_error
from pipeline.inference.labels import Ints, Labels
from pipeline.inference.registry import ALGORITHMS, Entry

LABELS, TRUTH = ".labels.csv", ".truth.csv"


def names_in(data: Path) -> list[str]:
    """The names of all crowds of a folder, from A to Z."""
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
    """The crowd of this name, read once in each process."""
    labels_path, truth_path = paths(Path(data), name)
    labels = read_labels(str(labels_path))
    truth = truth_of(labels, read_truth(str(truth_path), labels.classes))
    is_known = truth != 0 if labels.are_signs else truth >= 0
    if not is_known.any():
        raise BadFile(str(truth_path), "has the truth of none of the tasks that have labels")
    return RealCrowd(labels, truth)


def crowd_of_signs(data: str, name: str) -> RealCrowd:
    """The crowd of this name; raises `BadFile` if its classes are not -1 and 1."""
    crowd = real_crowd(data, name)
    if not crowd.labels.are_signs:
        path, _ = paths(Path(data), name)
        raise BadFile(str(path), "has classes other than -1 and 1")
    return crowd


def paths(data: Path, name: str) -> tuple[Path, Path]:
    """The two files of a crowd."""
    return data / f"{name}{LABELS}", data / f"{name}{TRUTH}"


def fingerprint(data: Path, name: str) -> str:
    """A hash of the files of a crowd, so that results of changed files are not reused."""
    digest = sha256()
    for path in paths(data, name):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def cases_of(data: Path, name: str, algorithms: Iterable[Entry], shuffles: int) -> list[Case]:
    """One case for each run of each algorithm on a crowd, with the fingerprint of its files."""
    files = fingerprint(data, name)
    return [
        {"set": name, "files": files, "algorithm": entry.name, "run": number}
        for entry in algorithms
        for number in range(shuffles if entry.is_random else 1)
    ]


def measure(data: str, case: Case, rng: np.random.Generator) -> Result:
    """The error of one algorithm on one crowd, in a random order if it depends on that."""
    labels, truth = real_crowd(data, str(case["set"]))
    entry = ALGORITHMS[str(case["algorithm"])]
    if entry.is_random:
        return {"error": shuffled_error(entry.load(), labels, Prior(), truth, rng)}
    return {"error": entry.load()(labels, Prior(), rng).error(truth)}


class Place(NamedTuple):
    """The row and column of an error in a table."""

    set: str
    algorithm: str


def errors_by_place(cases: Sequence[Case], results: Sequence[Result]) -> dict[Place, list[float]]:
    """The errors of all runs of every algorithm on every crowd."""
    errors: dict[Place, list[float]] = {}
    for case, result in zip(cases, results, strict=True):
        place = Place(str(case["set"]), str(case["algorithm"]))
        errors.setdefault(place, []).append(result["error"])
    return errors
