"""Writes an estimate as CSV, a row for each task in order of first appearance."""

from pipeline.files.csv_text import csv_bytes
from pipeline.inference.algorithm import TIE, AnyEstimate, ClassEstimate, Estimate
from pipeline.inference.labels import Labels

COLUMNS = ("task", "log_odds", "probability", "prediction")
CLASS_COLUMNS = ("task", "prediction", "confidence")


def estimate_csv(labels: Labels, estimate: AnyEstimate) -> bytes:
    """The estimate as CSV, in the columns for -1 and 1 or in those for other classes."""
    if isinstance(estimate, ClassEstimate):
        return class_csv(labels, estimate)
    return sign_csv(labels, estimate)


def sign_csv(labels: Labels, estimate: Estimate) -> bytes:
    """`log_odds` and `probability` are empty if the algorithm has none."""
    log_odds: list[float] | list[None] = [None] * labels.tasks
    probability: list[float] | list[None] = [None] * labels.tasks
    if estimate.probability is not None:
        log_odds = (estimate.score + 0.0).tolist()  # -0.0 becomes 0.0
        probability = estimate.probability.tolist()
    rows = zip(labels.task_names, log_odds, probability, estimate.prediction.tolist(), strict=True)
    return csv_bytes(COLUMNS, rows)


def class_csv(labels: Labels, estimate: ClassEstimate) -> bytes:
    """`task,prediction,confidence` and a column `p:<class>` for each class, in their order.

    If the algorithm has no probabilities these are shares of the votes, empty for a task without
    votes. The prediction is empty for a tie.
    """
    columns = (*CLASS_COLUMNS, *(f"p:{name}" for name in labels.classes))
    totals = estimate.score.sum(axis=1)
    rows = (
        (task, "" if best == TIE else labels.classes[best], *shares(score, total))
        for task, best, score, total in zip(
            labels.task_names,
            estimate.prediction.tolist(),
            estimate.score.tolist(),
            (1.0 if estimate.is_probability else total for total in totals.tolist()),
            strict=True,
        )
    )
    return csv_bytes(columns, rows)


def shares(score: list[float], total: float) -> list[float | None]:
    """The highest share of the total, then each share; None for a total of 0.

    >>> shares([3.0, 1.0], 4.0), shares([0.0, 0.0], 0.0)
    ([0.75, 0.75, 0.25], [None, None, None])
    """
    if not total:
        return [None] * (1 + len(score))
    every = [part / total for part in score]
    return [max(every), *every]
