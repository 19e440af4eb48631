"""What the probabilities of ordered classes say: the mean, the median, and an interval."""

from typing import NamedTuple

import numpy as np

from sbic.engine.labels import Floats, Ints

SHARE = 0.8
"""How probable it is that the truth lies in the interval."""
ROUNDING = 1e-9


class Rating(NamedTuple):
    """A row for each task: the mean, and the numbers of the other classes.

    The interval is from `low` to `high`: the fewest neighbouring classes that together have a
    probability of 80 %, and of as many the most probable.
    """

    mean: Floats
    median: Ints
    low: Ints
    high: Ints


def rated(beliefs: Floats, first: int = 0) -> Rating:
    """Return the ratings of tasks, by a row of probabilities each; the mean counts from `first`.

    >>> found = rated(np.array([[0.1, 0.2, 0.7], [0.85, 0.1, 0.05], [0.4, 0.2, 0.4]]), 1)
    >>> found.mean.round(2).tolist(), found.median.tolist()
    ([2.6, 1.2, 2.0], [2, 0, 1])
    >>> list(zip(found.low.tolist(), found.high.tolist()))
    [(1, 2), (0, 0), (0, 2)]
    """
    tasks, classes = beliefs.shape
    mean = np.clip(first + beliefs @ np.arange(classes), first, first + classes - 1)
    median = np.minimum((beliefs.cumsum(axis=1) < 0.5 - ROUNDING).sum(axis=1), classes - 1)
    low, high = np.zeros(tasks, np.int64), np.full(tasks, classes - 1)
    left = np.arange(tasks)
    for width in range(classes - 1):
        if not len(left):
            break
        sums = _sums(beliefs[left], width)
        start = sums.argmax(axis=1)
        is_found = sums[np.arange(len(left)), start] >= SHARE - ROUNDING
        low[left[is_found]] = start[is_found]
        high[left[is_found]] = start[is_found] + width
        left = left[~is_found]
    return Rating(mean, median, low, high)


def within(beliefs: Floats, width: int) -> Floats:
    """How probable the most probable neighbouring classes are, from one to `width` above it.

    >>> within(np.array([[0.1, 0.2, 0.7], [0.4, 0.2, 0.4]]), 1).round(9).tolist()
    [0.9, 0.6]
    """
    found: Floats = _sums(beliefs, width).max(axis=1, initial=0.0)
    return found


def _sums(beliefs: Floats, width: int) -> Floats:
    """Of each class and the `width` after it: the sum of their probabilities."""
    upto = np.concatenate((np.zeros((len(beliefs), 1)), beliefs.cumsum(axis=1)), axis=1)
    found: Floats = upto[:, width + 1 :] - upto[:, : -width - 1]
    return found
