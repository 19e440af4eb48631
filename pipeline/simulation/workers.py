"""Simulated workers: most try, others answer at random, drop out, skip or answer twice."""

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from random import Random
from typing import NamedTuple

from pipeline.classes import SIGNS, Classes
from pipeline.inference.algorithm import Prior

FAVOUR = 0.8  # how often a worker with a habit follows it; otherwise they give any class


@dataclass(frozen=True)
class Habits:
    """What the workers of a crowd are like; shares are from 0 to 1.

    `spammers`, `habitual` and `drop_outs` are shares of the workers: those who answer at random,
    those who favour one class when they do not know the answer, and those who leave with a task
    unanswered. `skips` and `repeats` are shares of the assigned tasks: those that are skipped, and
    those that are answered twice.
    """

    accuracy: Prior = field(default_factory=lambda: Prior(alpha=4, beta=3))
    think_seconds: float = 0.0
    spammers: float = 0.0
    drop_outs: float = 0.0
    skips: float = 0.0
    repeats: float = 0.0
    habitual: float = 0.0


class Response(NamedTuple):
    """What a worker does with a task: thinks, then gives labels; without any they have left.

    A label of 0 is a skip.
    """

    seconds: float
    labels: tuple[int | str, ...]


class SimulatedWorker:
    """One worker with a separate random generator, independent of the other workers.

    >>> truth = {"t1": 1, "t2": -1}
    >>> expert = SimulatedWorker("ann", Habits(accuracy=Prior(1e9, 1e-9)), 5, Random(0))
    >>> [expert.respond(truth[task]).labels for task in ("t1", "t2")]
    [(1,), (-1,)]

    `favourite` is the class that a worker with a habit favours. They too are right with the
    probability `accuracy` if all classes are equally frequent, but not less often than by chance.
    """

    def __init__(
        self, name: str, habits: Habits, visits: int, rng: Random, classes: Classes = SIGNS
    ) -> None:
        """`visits` is how many tasks they are expected to get; drop-outs leave before that."""
        self.name = name
        self._habits = habits
        self._rng = rng
        self._labels = classes.labels
        accuracy = rng.betavariate(habits.accuracy.alpha, habits.accuracy.beta)
        self.accuracy = 1 / len(classes) if rng.random() < habits.spammers else accuracy
        drops_out = rng.random() < habits.drop_outs
        last = rng.randrange(max(1, visits))
        self._visits_left = last if drops_out else None
        self.favourite: int | str | None = None
        if habits.habitual and rng.random() < habits.habitual:
            self.favourite = rng.choice(self._labels)

    def respond(self, truth: int | str) -> Response:
        """The response to a task of this truth."""
        habits, rng = self._habits, self._rng
        if self._visits_left == 0:
            return Response(0.0, ())
        if self._visits_left is not None:
            self._visits_left -= 1
        mean = habits.think_seconds
        seconds = rng.expovariate(1 / mean) if mean else 0.0
        if rng.random() < habits.skips:
            return Response(seconds, (0,))
        times = 2 if rng.random() < habits.repeats else 1
        return Response(seconds, tuple(self.answer(truth, rng) for _ in range(times)))

    def answer(self, truth: int | str, rng: Random) -> int | str:
        """The label for a task of this truth."""
        if self.favourite is None:
            if rng.random() < self.accuracy:
                return truth
            wrong = [label for label in self._labels if label != truth]
            return wrong[0] if len(wrong) == 1 else rng.choice(wrong)
        by_chance = 1 / len(self._labels)
        if rng.random() < (self.accuracy - by_chance) / (1 - by_chance):
            return truth
        return self.favourite if rng.random() < FAVOUR else rng.choice(self._labels)


class Turns:
    """The order of workers: all once in a random order, then all once in another, and so on.

    A worker who is still at work at their turn takes it as soon as they are done.

    >>> turns = Turns({"ann": 1, "bob": 2}, Random(0))
    >>> first, second = turns.next(), turns.next()
    >>> sorted([first, second]), turns.next()
    (['ann', 'bob'], None)
    >>> turns.done("ann"), turns.next()
    (None, 'ann')
    """

    def __init__(self, names: Mapping[str, object], rng: Random) -> None:
        self._present = dict.fromkeys(names)
        self._at_work: set[str] = set()
        self._coming: deque[str] = deque()
        self._rng = rng

    def next(self) -> str | None:
        """The next worker, who is then at work; None if all that are left are at work."""
        if len(self._at_work) == len(self._present):
            return None
        while True:
            for _ in range(len(self._coming)):
                name = self._coming.popleft()
                if name in self._at_work:
                    self._coming.append(name)
                elif name in self._present:
                    self._at_work.add(name)
                    return name
            everyone = list(self._present)
            self._rng.shuffle(everyone)
            self._coming.extend(everyone)

    def done(self, name: str) -> None:
        """The worker is free again."""
        self._at_work.remove(name)

    def leave(self, name: str) -> None:
        """The worker is done, and does not return."""
        self._at_work.remove(name)
        del self._present[name]
