"""Settled as its equations are written, with dicts: what the engine must equal."""

from collections.abc import Sequence
from math import exp, log

M, S, C = 8, 16, 100


class Transcription:
    """A label is taken as the equations say it; `sweep` refreshes all tasks in order."""

    def __init__(
        self,
        classes: int,
        alpha: float = 2,
        beta: float = 1,
        class_prior: Sequence[float] | None = None,
    ) -> None:
        self.classes = range(classes)
        self.alpha, self.beta = alpha, beta
        self.class_prior = class_prior
        self.labels: dict[int, dict[int, int]] = {}
        self.belief: dict[int, list[float]] = {}
        self.gold: dict[int, int] = {}
        self.prior: dict[int, Sequence[float]] = {}
        self.n: dict[int, int] = {}
        self.a: dict[int, float] = {}
        self.said: dict[int, list[int]] = {}
        self.all_n, self.all_a = 0, 0.0

    def observe(self, i: int, j: int, x: int) -> None:
        if not self.labels.get(i):
            self.labels[i] = {}
            self.belief[i] = self.start(i)
        self.labels[i][j] = x
        self.count(i, j, x, 1)
        self.refresh(i)

    def retract(self, i: int, j: int) -> None:
        self.count(i, j, self.labels[i].pop(j), -1)
        if self.labels[i]:
            self.refresh(i)

    def replace(self, i: int, j: int, x: int) -> None:
        self.count(i, j, self.labels[i].pop(j), -1)
        self.observe(i, j, x)

    def count(self, i: int, j: int, x: int, sign: int) -> None:
        self.n[j] = self.n.get(j, 0) + sign
        self.a[j] = self.a.get(j, 0.0) + sign * self.belief[i][x]
        self.said.setdefault(j, [0 for _ in self.classes])[x] += sign
        self.all_n += sign
        self.all_a += sign * self.belief[i][x]

    def set_gold(self, i: int, x: int | None) -> None:
        was_gold = self.gold.pop(i, None) is not None
        if x is not None:
            self.gold[i] = x
        if self.labels.get(i):
            if x is not None or was_gold:
                self.move(i, self.start(i))
            self.refresh(i)

    def set_prior(self, i: int, prior: Sequence[float] | None) -> None:
        self.prior.pop(i, None)
        if prior is not None:
            self.prior[i] = prior
        if self.labels.get(i):
            self.refresh(i)

    def start(self, i: int) -> list[float]:
        if i in self.gold:
            return [float(k == self.gold[i]) for k in self.classes]
        return list(self.prior.get(i, [1 / len(self.classes) for _ in self.classes]))

    def pi(self, i: int) -> Sequence[float]:
        if i in self.prior:
            return self.prior[i]
        if self.class_prior is not None:
            return self.class_prior
        free = [h for h in self.labels if self.labels[h] and h not in self.gold | self.prior]
        rho = [sum(self.belief[h][k] for h in free) for k in self.classes]
        return [(r + C / len(rho)) / (len(free) + C) for r in rho]

    def refresh(self, i: int) -> float:
        """How far any probability has moved."""
        if i in self.gold:
            return 0.0
        pi, before = self.pi(i), self.belief[i]
        g = (self.all_a + self.alpha) / (self.all_n + self.alpha + self.beta)
        floor = 0.02 / len(pi)
        z = [log(p) for p in pi]
        for j, x in self.labels[i].items():
            others = self.n[j] - 1
            p = (self.a[j] - before[x] + M * g) / (others + M)
            p = min(max(p, 1e-6), 1 - 1e-6)
            f = [(self.said[j][k] - (k == x) + S / len(pi)) / (others + S) for k in self.classes]
            h = sum(pi[k] * f[k] for k in self.classes)
            theta = max((p - h) / (1 - h), -1)
            for k in self.classes:
                right = theta + (1 - theta) * f[x]
                wrong = (1 - theta) * f[x]
                z[k] += log(max(right if k == x else wrong, floor))
        most = max(z)
        total = sum(exp(v - most) for v in z)
        self.move(i, [exp(v - most) / total for v in z])
        return max(abs(new - old) for new, old in zip(self.belief[i], before, strict=True))

    def move(self, i: int, belief: list[float]) -> None:
        for j, x in self.labels[i].items():
            self.a[j] += belief[x] - self.belief[i][x]
            self.all_a += belief[x] - self.belief[i][x]
        self.belief[i] = belief

    def settle(self, tolerance: float) -> None:
        while max(self.refresh(i) for i in sorted(self.labels) if self.labels[i]) > tolerance:
            pass
