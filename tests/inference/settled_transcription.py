"""Settled as its equations are written, with dicts: what the engine must equal."""

from collections import Counter, defaultdict
from collections.abc import Sequence
from math import exp, log, sqrt

import numpy as np

Row = list[float]


def softmax(z: Sequence[float]) -> Row:
    odds = [exp(v - max(z)) for v in z]
    return [v / sum(odds) for v in odds]


def calibrated(gold: Sequence[tuple[Row, int]], classes: int) -> tuple[float, Row]:
    """The most probable a and b of softmax(a X + b), given X and truth of gold.

    For each a the best b is found, and log a by halving where the slope of the posterior changes
    its sign.
    """
    low, high, b = -16.0, 16.0, np.zeros(classes)
    x, is_true = np.array([x for x, _ in gold]), np.eye(classes)[[y for _, y in gold]]
    while gold and (log_a := (low + high) / 2) not in (low, high):
        for _ in range(50):  # Newton's steps
            p = np.array([softmax(row) for row in exp(log_a) * x + b])
            bend = np.diag(p.sum(axis=0) + 1 / 0.7**2) - p.T @ p
            step = np.linalg.solve(bend, (is_true - p).sum(axis=0) - b / 0.7**2)
            b = b + np.clip(step, -0.5, 0.5)
            if np.abs(step).max() < 1e-13:
                break
        is_below = exp(log_a) * ((is_true - p) * x).sum() > log_a / 0.6**2
        low, high = (log_a, high) if is_below else (low, log_a)
    return exp((low + high) / 2), b.tolist()


class Transcription:
    """A label is taken as the equations say it; `settle` refreshes all tasks in order."""

    def __init__(
        self,
        classes: int,
        alpha: float = 2,
        beta: float = 1,
        class_prior: Sequence[float] | None = None,
        common: int = 50,
    ) -> None:
        self.classes = range(classes)
        self.alpha, self.beta = alpha, beta
        self.class_prior = class_prior
        self.common = common
        self.labels: dict[int, dict[int, int]] = {}
        self.counted: set[int] = set()  # tasks with labels
        self.belief: dict[int, Row] = {}
        self.score: dict[int, Row] = {}
        self.gold: dict[int, int] = {}
        self.prior: dict[int, Sequence[float]] = {}
        self.told: dict[tuple[int, int], tuple[float, float]] = {}
        self.apart: dict[int, tuple[float, float]] = {}
        self.copy: dict[tuple[int, int], float] = {}
        self.group: dict[int, int] = {}  # of workers who are said to err together
        self.dependence, self.scale, self.bias = 0.0, 1.0, [0.0 for _ in self.classes]

    def labels_of(self, i: int) -> dict[int, int]:
        """The answers to a task, by worker."""
        return dict(self.labels.get(i, {}))

    # Counts, added up anew each time.

    def given(self, j: int) -> list[tuple[int, int]]:
        return [(i, labels[j]) for i, labels in self.labels.items() if j in labels]

    def workers(self) -> list[int]:
        return sorted({j for labels in self.labels.values() for j in labels})

    def rows(self, j: int) -> list[Row]:
        """C[k][x]."""
        rows = [[0.0 for _ in self.classes] for _ in self.classes]
        for i, x in self.given(j):
            for k in self.classes:
                rows[k][x] += self.belief[i][k]
        return rows

    def free(self) -> list[int]:
        return sorted(self.counted - self.gold.keys() - self.prior.keys())

    def pi(self) -> Row:
        if self.class_prior is not None:
            return list(self.class_prior)
        free = self.free()
        rho = [sum(self.belief[i][k] for i in free) for k in self.classes]
        return [(r + 100 / len(rho)) / (len(free) + 100) for r in rho]

    def g(self) -> float:
        right = [self.belief[i][x] for i, given in self.labels.items() for x in given.values()]
        learned = (sum(right) + self.alpha) / (len(right) + self.alpha + self.beta)
        return 0.8 * learned + 0.2 * self.alpha / (self.alpha + self.beta)

    def m(self) -> float:
        y: dict[int, float] = defaultdict(float)
        v: dict[int, float] = defaultdict(float)
        for (_, j), (about, weight) in self.told.items():
            y[j] += about
            v[j] += weight
        tau = min(max((100 / 3 + sum(y.values())) / (100 + sum(v.values())), 0.05), 0.95)
        chance = 1 / len(self.classes)
        right = tau + (1 - tau) * chance
        unit = (1 - chance) ** 2 / right + (1 - right) / (1 - tau) ** 2
        seen = sum((y[j] - tau * v[j]) ** 2 - v[j] for j in y)
        pairs = sum(w * w for w in v.values()) - sum(w * w for _, w in self.told.values())
        spread = unit * (seen + 10 * unit) / (max(pairs, 0.0) + 300 * unit**2)
        return 60 if spread * 60 <= 1 else max(1 / spread, 8)

    def strength(self) -> float:
        """S."""
        apart = sum(d for d, _ in self.apart.values())
        phi = (apart + 125) / (sum(e for _, e in self.apart.values()) + 2000)
        return 1024 if phi <= 0 or phi**2 * 1024 <= 1 else max(1 / phi**2, 64)

    # Workers.

    def model(self, right: float, said: Row) -> tuple[float, Row]:
        """θ and f of a worker with these counts."""
        n, m, pi = sum(said), self.m(), self.pi()
        even = 1 / len(pi)
        known = n * (1 - sum(p * p for p in pi)) + m * (1 - even)
        more = right - sum(p * v for p, v in zip(pi, said, strict=True)) + m * (self.g() - even)
        theta = min(max(more / known, -1.0), 1.0)
        f = [
            (v - n * theta * p + 16 * (1 - theta) * even) / (n + 16)
            for v, p in zip(said, pi, strict=True)
        ]
        return theta, f

    def expected(self, theta: float, f: Row, k: int) -> Row:
        """q0(x|k) for each x."""
        floor = 0.02 / len(f)
        return [max(theta * (k == x) + f[x], floor) for x in self.classes]

    def without(self, i: int, j: int) -> tuple[list[Row], float, Row]:
        """q[k][x], θ and f of worker j without task i."""
        rows, x, belief, strength = self.rows(j), self.labels[i][j], self.belief[i], self.strength()
        for k in self.classes:
            rows[k][x] -= belief[k]
        said = Counter(answer for h, answer in self.given(j) if h != i)
        right = sum(rows[k][k] for k in self.classes)
        theta, f = self.model(right, [said[k] for k in self.classes])
        q = []
        for k in self.classes:
            expected, total = self.expected(theta, f, k), sum(rows[k]) + strength
            q.append(
                [
                    max((c + strength * e) / total, 1e-6)
                    for c, e in zip(rows[k], expected, strict=True)
                ]
            )
        return q, theta, f

    def compare(self, j: int) -> None:
        """How far C is from θ and f."""
        self.apart.pop(j, None)
        given = self.given(j)
        if not given:
            return
        rows, said = self.rows(j), Counter(x for _, x in given)
        theta, f = self.model(
            sum(rows[k][k] for k in self.classes), [said[k] for k in self.classes]
        )
        apart = pairs = 0.0
        for k in self.classes:
            q0, total = self.expected(theta, f, k), sum(rows[k])
            wide = max(1 - sum(q * q for q in q0), 0.0)
            q = sum(self.belief[i][k] ** 2 for i, _ in given)
            apart += sum((rows[k][x] - total * q0[x]) ** 2 for x in self.classes) - wide * q
            pairs += wide * max(q * q - q, 0.0)
        self.apart[j] = apart, pairs

    def find_copies(self) -> None:
        both: Counter[tuple[int, int]] = Counter()
        same: Counter[tuple[int, int]] = Counter()
        for labels in self.labels.values():
            if len(set(labels.values())) > 1:
                pairs = [(j, k) for j in labels for k in labels if j != k]
                both.update(pairs)
                same.update((j, k) for j, k in pairs if labels[j] == labels[k])
        self.copy = {
            pair: min((same[pair] / n - least) / (1 - least), 1.0)
            for pair, n in both.items()
            if (least := self.alike(*pair)) and n >= self.common and same[pair] > least * n
        }

    def alike(self, j: int, k: int) -> float:
        """On which share of contested tasks copies agree at least."""
        return 0.7 if j in self.group and self.group[j] == self.group.get(k) else 0.95

    def share(self, i: int, j: int) -> float:
        """c."""
        return 1 / (1 + sum(self.copy.get((j, other), 0.0) for other in self.labels[i]))

    # Tasks.

    def start(self, i: int) -> Row:
        if i in self.gold:
            return [float(k == self.gold[i]) for k in self.classes]
        return list(self.prior.get(i, [1 / len(self.classes) for _ in self.classes]))

    def observe(self, i: int, j: int, x: int) -> None:
        if not self.labels.get(i):
            self.labels[i] = {}
            self.belief[i] = self.start(i)
            self.counted.add(i)
        self.labels[i][j] = x
        self.refresh(i)
        self.compare(j)

    def retract(self, i: int, j: int) -> None:
        del self.labels[i][j], self.told[i, j]
        self.compare(j)
        if self.labels[i]:
            self.refresh(i)
        else:
            self.counted.remove(i)

    def set_gold(self, i: int, x: int | None) -> None:
        was_gold = self.gold.pop(i, None) is not None
        if x is not None:
            self.gold[i] = x
        if self.labels.get(i):
            if x is not None or was_gold:
                self.belief[i] = self.start(i)
            self.refresh(i)

    def set_prior(self, i: int, prior: Sequence[float] | None) -> None:
        self.prior.pop(i, None)
        if prior is not None:
            self.prior[i] = prior
        if self.labels.get(i):
            self.refresh(i)

    def refresh(self, i: int) -> float:
        """How far any probability has moved."""
        z = [log(p) for p in self.prior.get(i, self.pi())]
        used, pi = [], self.pi()
        for j, x in self.labels[i].items():
            (q, theta, f), c = self.without(i, j), self.share(i, j)
            z = [z[k] + c * log(q[k][x]) for k in self.classes]
            used.append((j, x, theta, f[x], [q[k][x] ** c for k in self.classes]))
        before, self.score[i] = self.belief[i], z
        belief = self.belief[i] = before if i in self.gold else softmax(z)
        for j, x, theta, guessed, likely in used:
            others = [p / v for p, v in zip(belief, likely, strict=True)]
            mu = others[x] / sum(others)
            d = (mu - pi[x]) / max(guessed + theta * mu, 0.05)
            self.told[i, j] = d * d * theta + d, d * d
        return max(abs(new - old) for new, old in zip(belief, before, strict=True))

    def settle(self, tolerance: float, sweeps: int = 2000) -> bool:
        self.find_copies()
        for _ in range(sweeps):
            strength = self.strength()
            far = max(self.refresh(i) for i in sorted(self.labels) if self.labels[i])
            for j in self.workers():
                self.compare(j)
            if max(far, abs(self.strength() / strength - 1)) < tolerance:
                self.depend()
                self.calibrate()
                return True
        return False

    # What is published.

    def votes(self, i: int) -> float:
        return sum(self.share(i, j) for j in self.labels[i])

    def depend(self) -> None:
        """ρ."""
        pi, together, apart = self.pi(), [], 0.0
        for i in self.labels:
            n = self.votes(i)
            if n <= 1:
                continue
            summed, squares = [0.0 for _ in self.classes], [0.0 for _ in self.classes]
            for j, x in self.labels[i].items():
                q = [[v / sum(row) for v in row] for row in self.without(i, j)[0]]
                mean = [sum(pi[k] * q[k][y] for k in self.classes) for y in self.classes]
                for k in self.classes:
                    v = [log(q[k][y] / mean[y]) for y in self.classes]
                    r = v[x] - sum(q[k][y] * v[y] for y in self.classes)
                    summed[k] += self.share(i, j) * r
                    squares[k] += self.share(i, j) * r * r
            belief = self.belief[i]
            together.append(sum(belief[k] * (summed[k] ** 2 - squares[k]) for k in self.classes))
            apart += (n - 1) * sum(belief[k] * squares[k] for k in self.classes)
        excess = sum(together) - 2 * sqrt(sum(t * t for t in together))
        seen = max(0.0, excess) / apart if apart > 0 else 0.0
        self.dependence = seen**2 / (seen**2 + 0.05**2)

    def discounted(self, i: int) -> Row:
        less = 1 + max(self.votes(i) - 1, 0.0) * self.dependence
        return [z / less for z in self.score[i]]

    def calibrate(self) -> None:
        gold = [(self.discounted(i), x) for i, x in self.gold.items() if self.labels.get(i)]
        self.scale, self.bias = calibrated(gold, len(self.classes))

    def published(self, i: int) -> Row:
        if i in self.gold:
            return self.belief[i]
        x = self.discounted(i)
        return softmax([self.scale * v + b for v, b in zip(x, self.bias, strict=True)])
