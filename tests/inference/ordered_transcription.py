"""Settled with classes that have an order, as its equations are written."""

from collections import Counter
from math import log

from tests.inference.settled_transcription import Row, Transcription, softmax


class OrderedTranscription(Transcription):
    """As the base but for θ, f and q0, and for what labels tell of θ."""

    kappa = 0.1
    far: dict[int, tuple[float, float]]

    def near(self, apart: int) -> Row:
        return [float(max(abs(x - apart) - 1, 0)) for x in self.classes]

    def known(self) -> float:
        """γ."""
        labels = sum(map(len, self.labels.values()))
        return max(0.0, 1 - (2 * len(self.free()) / labels) ** 2) if labels else 0.0

    def answered(self) -> Row:
        """c."""
        pi, u = self.pi(), [self.decayed([1.0 for _ in self.classes], 0.6, k) for k in self.classes]
        hit = sum(p * u[k][k] for k, p in enumerate(pi))
        t = max((self.g() - hit) / (1 - hit), 0.0)
        return [
            t * pi[x] + (1 - t) * sum(p * u[k][x] for k, p in enumerate(pi)) for x in self.classes
        ]

    def decayed(self, f: Row, r: float, k: int) -> Row:
        """f_x r^|x - k|, normalised."""
        odds = [v * float(r ** abs(x - k)) for x, v in enumerate(f)]
        return [v / sum(odds) for v in odds]

    def crowd_near(self) -> float:
        """r*."""
        far: dict[int, tuple[float, float]] = getattr(self, "far", {})
        x, z = (sum(pair[part] for pair in far.values()) for part in (0, 1))
        return min((x + 50 * 0.6) / (z + 50), 1.0)

    def shaped(self, rows: list[Row], said: Row) -> tuple[float, list[Row], tuple[float, float]]:
        """θ and h[k][x], and X and Z."""
        n, right = sum(said), sum(rows[k][k] for k in self.classes)
        c, known = self.answered(), self.known()
        f = [(v + 16 * p) * p**-known for v, p in zip(said, c, strict=True)]
        f = [v / sum(f) for v in f]
        x = sum(rows[k][y] * self.near(k)[y] for k in self.classes for y in self.classes)
        off = sum(sum(rows[k]) * f[y] * self.near(k)[y] for k in self.classes for y in self.classes)
        apart = sum(sum(rows[k]) * (1 - f[k]) for k in self.classes)
        z = max(n - right, 0.0) * off / apart if apart > 1e-9 else 0.0
        r = min(max((max(x, 0.0) + 20 * self.crowd_near()) / (z + 20), 0.05), 1.0)
        h = [self.decayed(f, r, k) for k in self.classes]
        hit = sum(p * h[k][k] for k, p in enumerate(self.pi()))
        m = self.m()
        p = min(max((right + m * self.g()) / (n + m), 1e-6), 1 - 1e-6)
        return max((p - hit) / (1 - hit), -1.0), h, (x, z)

    def prior_rows(self, theta: float, h: list[Row]) -> list[Row]:
        """q0[k][x]."""
        floor = 0.02 / len(h)
        return [
            [max(theta * (k == x) + (1 - theta) * h[k][x], floor) for x in self.classes]
            for k in self.classes
        ]

    def guesses(self, i: int, j: int) -> tuple[list[Row], float, list[Row]]:
        """q[k][x], θ and h of worker j without task i."""
        rows, x, strength = self.rows(j), self.labels[i][j], self.strength()
        for k in self.classes:
            rows[k][x] -= self.belief[i][k]
        said = Counter(answer for task, answer in self.given(j) if task != i)
        theta, h, _ = self.shaped(rows, [float(said[k]) for k in self.classes])
        q0 = self.prior_rows(theta, h)
        q = [
            [
                max((c + strength * e) / (sum(row) + strength), 1e-6)
                for c, e in zip(row, own, strict=True)
            ]
            for row, own in zip(rows, q0, strict=True)
        ]
        return q, theta, h

    def without(self, i: int, j: int) -> tuple[list[Row], float, Row]:
        q, theta, h = self.guesses(i, j)
        return q, theta, h[0]

    def compare(self, j: int) -> None:
        self.far = getattr(self, "far", {})
        self.apart.pop(j, None)
        given = self.given(j)
        if not given:
            self.far.pop(j, None)
            return
        rows, said = self.rows(j), Counter(x for _, x in given)
        theta, h, self.far[j] = self.shaped(rows, [float(said[k]) for k in self.classes])
        apart = pairs = 0.0
        for k, q0 in enumerate(self.prior_rows(theta, h)):
            total, wide = sum(rows[k]), max(1 - sum(q * q for q in q0), 0.0)
            q = sum(self.belief[i][k] ** 2 for i, _ in given)
            apart += sum((rows[k][x] - total * q0[x]) ** 2 for x in self.classes) - wide * q
            pairs += wide * max(q * q - q, 0.0)
        self.apart[j] = apart, pairs

    def refresh(self, i: int) -> float:
        pi = self.pi()
        z, used = [log(p) for p in self.prior.get(i, pi)], []
        for j, x in self.labels[i].items():
            (q, theta, h), c = self.guesses(i, j), self.share(i, j)
            z = [v + c * log(row[x]) for v, row in zip(z, q, strict=True)]
            used.append((j, x, theta, h, [row[x] ** c for row in q]))
        before, self.score[i] = self.belief[i], z
        belief = self.belief[i] = before if i in self.gold else softmax(z)
        for j, x, theta, h, likely in used:
            others = [p / v for p, v in zip(belief, likely, strict=True)]
            mu = [v / sum(others) for v in others]
            guessed = sum(v * row[x] for v, row in zip(mu, h, strict=True))
            d = mu[x] - guessed - pi[x] + sum(p * row[x] for p, row in zip(pi, h, strict=True))
            d /= max(guessed + theta * (mu[x] - guessed), 0.05)
            self.told[i, j] = d * d * theta + d, d * d
        return max(abs(new - old) for new, old in zip(belief, before, strict=True))

    def settle(self, tolerance: float, sweeps: int = 2000) -> bool:
        self.find_copies()
        for _ in range(sweeps):
            before = self.strength(), self.crowd_near()
            far = max(self.refresh(i) for i in sorted(self.labels) if self.labels[i])
            for j in self.workers():
                self.compare(j)
            moved = abs(self.strength() / before[0] - 1), abs(self.crowd_near() - before[1])
            if max(far, *moved) < tolerance:
                self.depend()
                self.calibrate()
                return True
        return False
