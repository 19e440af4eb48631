"""An estimate as a CSV file: `task,log_odds,probability,prediction`."""

from pipeline.files.csv_text import csv_bytes
from pipeline.inference.algorithm import Estimate
from pipeline.inference.labels import Labels

COLUMNS = ("task", "log_odds", "probability", "prediction")


def estimate_csv(labels: Labels, estimate: Estimate) -> bytes:
    """A row for each task in order of first appearance.

    `log_odds` and `probability` are empty where the algorithm has none.
    """
    log_odds: list[float] | list[None] = [None] * labels.tasks
    probability: list[float] | list[None] = [None] * labels.tasks
    if estimate.probability is not None:
        log_odds = (estimate.score + 0.0).tolist()  # -0.0 becomes 0.0
        probability = estimate.probability.tolist()
    rows = zip(labels.task_names, log_odds, probability, estimate.prediction.tolist(), strict=True)
    return csv_bytes(COLUMNS, rows)
