"""The recent latency from a label to the posterior that counts it."""

from collections import deque
from collections.abc import Callable
from time import time

import numpy as np

KEPT = 1000
RECENT_MS = 600_000


class Latency:
    """The latency of the last posteriors with a new label: from its timestamp to publication.

    >>> latency = Latency(clock=lambda: 100.0)
    >>> for ms in (10, 20, 30):
    ...     latency.add(published_at=90_000 + ms, labelled_at=90_000)
    >>> latency.as_object()
    {'median_ms': 20.0, 'p99_ms': 29.8}
    """

    def __init__(self, clock: Callable[[], float] = time) -> None:
        self._clock = clock
        self._seen: deque[tuple[int, int]] = deque(maxlen=KEPT)

    def add(self, published_at: int, labelled_at: int) -> None:
        """Add a posterior that counts a label; both times in milliseconds."""
        self._seen.append((published_at, published_at - labelled_at))

    def as_object(self) -> dict[str, float | None]:
        """Median and 99th percentile of the last ten minutes; null where there are none."""
        since = 1000 * self._clock() - RECENT_MS
        late = [max(0, ms) for at, ms in self._seen if at >= since]  # clocks may differ
        if not late:
            return {"median_ms": None, "p99_ms": None}
        median, p99 = np.percentile(late, (50, 99)).tolist()
        return {"median_ms": median, "p99_ms": round(p99, 3)}
