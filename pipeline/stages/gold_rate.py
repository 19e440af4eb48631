"""When a worker gets a gold task, whose truth is known: more often while they are new."""

from hashlib import blake2b

NEW_WORKER = 4.0  # times the rate, in addition, for a worker without labels
HALVED_EVERY = 5.0  # labels: the addition has a half-life

BYTES = 7
ALL_DRAWS = 1 << 8 * BYTES


class GoldRate:
    """The share of gold among a worker's assignments.

    With n labels so far it is

        min(1, g (1 + 4 · 2^(-n / 5)))

    where g is the rate for a worker with many labels. Whether the k-th assignment of a worker is
    gold depends only on the seed, the worker and k.

    >>> rate = GoldRate(0.1)
    >>> rate(labels=0), rate(labels=5), round(rate(labels=50), 3)
    (0.5, 0.30000000000000004, 0.1)
    """

    def __init__(self, rate: float, seed: int = 0) -> None:
        self.rate = rate
        self._key = str(seed).encode()[:16]

    def __call__(self, labels: int) -> float:
        """The rate for a worker with so many labels."""
        while_new: float = NEW_WORKER * 0.5 ** (labels / HALVED_EVERY)
        return min(1.0, self.rate * (1.0 + while_new))

    def is_due(self, worker: str, number: int, labels: int) -> bool:
        """Whether this assignment of a worker with so many labels is gold."""
        if self.rate == 0.0:
            return False
        name = f"{number} {worker}".encode()
        drawn = int.from_bytes(blake2b(name, digest_size=BYTES, key=self._key).digest(), "big")
        return drawn < self(labels) * ALL_DRAWS
