"""Labels by group: sums per task or per worker, and the positions of each group's labels."""

import numpy as np
from numpy.typing import NDArray

from pipeline.inference.labels import Floats, Ints


def summed(key: Ints, values: Floats | Ints | NDArray[np.bool_], groups: int) -> Floats:
    """The sum of the values of each group; 0 for an empty group.

    >>> summed(np.array([1, 0, 1]), np.array([0.5, 2.0, 0.25]), 3).tolist()
    [2.0, 0.75, 0.0]
    """
    sums: Floats = np.bincount(key, values, groups)  # type: ignore[assignment]
    return sums


def summed_rows(key: Ints, rows: Floats, groups: int) -> Floats:
    """The sum of the rows of each group; zeros for an empty group.

    >>> summed_rows(np.array([1, 0, 1]), np.array([[1.0, 2.0], [0.5, 0.0], [3.0, 4.0]]), 2).tolist()
    [[0.5, 0.0], [4.0, 6.0]]
    """
    return np.stack([summed(key, column, groups) for column in rows.T], axis=1)


def grouped(key: Ints, groups: int) -> tuple[Ints, Ints]:
    """The positions of the labels group by group, and where each group starts (and the last ends).

    >>> order, start = grouped(np.array([1, 0, 1]), 2)
    >>> order.tolist(), start.tolist()
    ([1, 0, 2], [0, 1, 3])
    """
    start = np.concatenate(([0], np.cumsum(np.bincount(key, minlength=groups))))
    return np.argsort(key, kind="stable"), start


def ranges(start: Ints, size: Ints) -> Ints:
    """The integers start, start + 1, ... of each range, one range after the other.

    >>> ranges(np.array([7, 2]), np.array([2, 3])).tolist()
    [7, 8, 2, 3, 4]
    """
    before = np.cumsum(size) - size
    every: Ints = np.arange(size.sum()) + np.repeat(start - before, size)
    return every
