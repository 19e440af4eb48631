"""KOS: the leading singular vector of the task-worker matrix.

With X the matrix of labels (0 where there is none), w the workers' weights and z the tasks'
scores, power iteration alternates

    w = Xᵀ z,    z = X w

from z = the majority, normalised to avoid overflow. Karger, Oh, Shah: *Budget-Optimal Task
Allocation for Reliable Crowdsourcing Systems*, Operations Research 2014, in the matrix form of
Appendix B of the paper.
"""

import numpy as np

from pipeline.inference.algorithm import Estimate, Prior
from pipeline.inference.grouping import summed
from pipeline.inference.labels import Floats, Labels
from pipeline.inference.majority import vote_balance

ITERATIONS = 100
SYNTHETIC_ITERATIONS = 5  # Appendix B: more accurate than convergence on synthetic crowds


def kos(
    labels: Labels, prior: Prior, rng: np.random.Generator, iterations: int = ITERATIONS
) -> Estimate:
    """KOS of Section 2.3. It uses no prior, and its score is not a log-odds.

    >>> two = Labels.of([("t1", "ann", 1), ("t1", "bob", 1), ("t2", "ann", -1)])
    >>> kos(two, Prior(), np.random.default_rng()).prediction.tolist()
    [1, -1]
    """
    score = normalised(vote_balance(labels))
    for _ in range(iterations):
        weight = summed(labels.worker, labels.label * score[labels.task], labels.workers)
        votes = labels.label * weight[labels.worker]
        score = normalised(summed(labels.task, votes, labels.tasks))
    return Estimate(score, is_log_odds=False)


def normalised(vector: Floats) -> Floats:
    """The vector at length 1; zero stays zero."""
    length = np.linalg.norm(vector)
    return vector if length == 0 else vector / length
