"""Arrays that grow by doubling."""

from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

Kind = TypeVar("Kind", bound=np.generic)


def with_room(array: NDArray[Kind], rows: int) -> NDArray[Kind]:
    """The array, or if it has fewer rows a longer copy, which ends with zeros.

    >>> with_room(np.array([1, 2]), 3).tolist(), with_room(np.array([1, 2]), 1).tolist()
    ([1, 2, 0, 0], [1, 2])
    """
    if rows <= len(array):
        return array
    longer = np.zeros((max(rows, 2 * len(array)), *array.shape[1:]), array.dtype)
    longer[: len(array)] = array
    return longer
