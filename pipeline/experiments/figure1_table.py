"""Figure 1 as text: the numbers, the findings, and the reference values."""

from collections.abc import Mapping, Sequence
from math import comb
from typing import NamedTuple

from pipeline.experiments.crowd import PRIOR
from pipeline.experiments.outcome import text_table
from pipeline.inference.registry import ALGORITHMS

HEADLINE = (10, 20, 40, 80)  # the R of the printed table

# From an independent earlier simulation: 1000 tasks, 10 labels per worker, Beta(4, 3).
REFERENCE: Mapping[tuple[str, str], Mapping[str, Sequence[float]]] = {
    ("uniform", "blocks"): {
        "em": (0.228, 0.108, 0.046, 0.0183),
        "amf": (0.226, 0.104, 0.041, 0.0148),
        "kos": (0.230, 0.111, 0.033, 0.0037),
        "mc": (0.229, 0.100, 0.026, 0.0025),
        "fast-sbic": (0.301, 0.206, 0.096, 0.0198),
        "sorted-sbic": (0.252, 0.125, 0.0332, 0.0031),
        "settled": (0.2214, 0.1015, 0.0295, 0.0028),
        "settled-live": (0.2485, 0.1135, 0.0309, 0.0030),
    },
    ("uncertainty", "blocks"): {
        "majority": (0.283, 0.204, 0.109, 0.030),
        "fast-sbic": (0.275, 0.187, 0.080, 0.0043),
        "sorted-sbic": (0.229, 0.104, 0.0085),
    },
    ("uncertainty", "interleaved"): {
        "majority": (0.281, 0.210, 0.111, 0.029),
        "fast-sbic": (0.246, 0.123, 0.016, 0.00006),
        "sorted-sbic": (0.198, 0.055, 0.0012),
        "settled-live": (0.210, 0.052, 0.0007),
    },
}

SHOWN = {
    "blocks": "each worker gives all their labels in a row, then leaves (--arrival blocks)",
    "interleaved": "the workers take turns, one label at a time (--arrival interleaved)",
}
FOUND = {
    "uniform": """\
Found: with the uniform policy the order of arrival makes little difference.""",
    "uncertainty": """\
Found: with the uncertainty policy the order of arrival, which the paper does not give, matters a
lot. With 1000 tasks and 10 labels per worker, Fast SBIC errs at R = 40 on 8% of the tasks if
workers arrive in blocks and on 1.5% if they take turns, Sorted SBIC on 0.9% and 0.1%; MAJ, which
does not estimate accuracies, on 11% either way. A worker who takes turns is known better at the
next label, since others have answered the same tasks meanwhile: the accuracy that Fast SBIC
estimates has a correlation of 0.48 with the true one, and of 0.19 in blocks.""",
}
NOTES = """\
The paper has this figure only as a plot, without numbers. The reference for MAJ with the uniform
policy is exact; the others are from an independent earlier simulation.
The interval (Agresti-Coull, 99%, as in the paper) assumes independent tasks. Tasks of one run share
workers and are not quite independent: the CSV also has the standard error over the runs."""


class Setting(NamedTuple):
    """The crowd, and the policy that chooses its tasks."""

    policy: str
    arrival: str
    tasks: int
    labels_per_worker: int
    max_labels: int


class Point(NamedTuple):
    """The mean error of an algorithm at R labels per task, with its uncertainty."""

    algorithm: str
    labels_per_task: int
    error: float
    low: float
    high: float
    standard_error: float | None
    runs: int


def caption(setting: Setting) -> str:
    """What the figure shows, and the finding about the order of arrival."""
    return f"Shown: {SHOWN[setting.arrival]}.\n{FOUND[setting.policy]}"


def title(setting: Setting) -> str:
    """The title of the figure."""
    return (
        f"Figure 1: share of wrong predictions, {setting.policy} policy, {setting.tasks} tasks, "
        f"{setting.labels_per_worker} labels per worker"
    )


def as_text(setting: Setting, points: Sequence[Point]) -> str:
    """Our errors at the headline R, with intervals and reference values."""
    sizes = sorted({size for size in HEADLINE if size < setting.max_labels} | {setting.max_labels})
    rows = []
    for name in dict.fromkeys(point.algorithm for point in points):
        own = {point.labels_per_task: point for point in points if point.algorithm == name}
        at = [own[size] for size in sizes]
        rows.append(
            (ALGORITHMS[name].title, "ours", *(share(p.error) for p in at), f"{at[0].runs}")
        )
        rows.append(("", "99% from", *(share(p.low) for p in at), ""))
        rows.append(("", "to", *(share(p.high) for p in at), ""))
        expected = [reference(setting, name, size) for size in sizes]
        if any(value is not None for value in expected):
            rows.append(("", "reference", *(share(value) for value in expected), ""))
    table = text_table(("", "", *(f"R = {size}" for size in sizes), "runs"), rows)
    return f"{title(setting)}\n\n{table}\n\n{caption(setting)}\n{NOTES}"


def share(value: float | None) -> str:
    """A share with its significant digits.

    >>> share(0.25), share(0.00006), share(None)
    ('0.2500', '0.00006', '')
    """
    return "" if value is None else f"{value:.4f}" if value >= 0.001 else f"{value:.5f}"


def reference(setting: Setting, algorithm: str, labels_per_task: int) -> float | None:
    """The reference value of the error, if there is one.

    >>> reference(Setting("uncertainty", "blocks", 1000, 10, 80), "fast-sbic", 40)
    0.08
    """
    if setting.policy == "uniform" and algorithm == "majority":
        return majority_error(labels_per_task, PRIOR.alpha / (PRIOR.alpha + PRIOR.beta))
    if (setting.tasks, setting.labels_per_worker) != (1000, 10):
        return None
    known = REFERENCE.get((setting.policy, setting.arrival), {}).get(algorithm, ())
    return dict(zip(HEADLINE, known, strict=False)).get(labels_per_task)


def majority_error(labels: int, accuracy: float) -> float:
    """The probability that most of so many independent labels are wrong; a tie counts half.

    >>> [round(majority_error(labels, 4 / 7), 4) for labels in HEADLINE]
    [0.3289, 0.263, 0.1834, 0.1002]
    """
    error = 0.0
    for right in range(labels // 2 + 1):
        weight = 0.5 if 2 * right == labels else 1.0
        wrong = labels - right
        error += weight * comb(labels, right) * accuracy**right * (1 - accuracy) ** wrong
    return error
