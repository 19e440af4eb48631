"""MC, one label at a time: a particle filter over the truth of all tasks.

A particle is a guess y of the truth of every task; the workers' accuracies are integrated out.
With n_j labels of worker j so far, of which r_j are right under the guess, a new label x of theirs
on task i multiplies the particle's weight by the probability it had (Beta-binomial):

    P(x | y, labels so far) = (r_j + α) / (n_j + α + β)        if x = y_i
                              (n_j - r_j + β) / (n_j + α + β)  otherwise

After every 10 labels a Gibbs sweep draws each y_i of each particle, given the others, from

    log P(y_i = +1) / P(y_i = -1) = log(q / (1 - q)) + Σ_j x_ij log((r_j + α) / (n_j - r_j + β))

(with r_j and n_j excluding task i), and the weights return to 1. The settings are those of
Appendix B. Chopin: *A Sequential Particle Filter Method for Static Models*, Biometrika 2002.
"""

from math import exp

import numpy as np
from numpy.typing import NDArray

from sbic.engine.compiled import compiled
from sbic.engine.labels import Estimate, Floats, Ints, Prior
from sbic.research.online import CrowdSize

PARTICLES = 50
LABELS_BETWEEN_SWEEPS = 10

Guesses = NDArray[np.int8]
TaskNumbers = NDArray[np.int32]


class ParticleFilter:
    """The score of a task is Σ w y_i / Σ w over the particles: P(y_i = +1) - P(y_i = -1).

    >>> rng = np.random.default_rng(1)
    >>> crowd = ParticleFilter(1, 3, 1, Prior(3, 1), rng, particles=10_000)
    >>> round(crowd.observe(0, 0, 1), 1), round(crowd.observe(0, 1, 1), 1)  # odds of 3, then 9
    (0.5, 0.8)
    """

    def __init__(
        self,
        tasks: int,
        workers: int,
        labels_per_worker: int,
        prior: Prior,
        rng: np.random.Generator,
        *,
        particles: int = PARTICLES,
        labels_between_sweeps: int = LABELS_BETWEEN_SWEEPS,
    ) -> None:
        self._prior = prior
        self._rng = rng
        self._labels_between_sweeps = labels_between_sweeps
        self._labels = 0
        self._task = np.zeros(workers * labels_per_worker, np.int32)
        self._answer = np.zeros(workers * labels_per_worker, np.int32)
        self._given = np.zeros(workers, np.int64)
        self._guess = (rng.random((tasks, particles)) < prior.q).astype(np.int8)
        self._place = np.zeros((workers, particles), np.int32)
        self._support = support(labels_per_worker, prior)
        self._weight = np.ones(particles)
        self.score = np.zeros(tasks)
        weigh_guesses(self._guess, self._weight, self.score)

    def observe(self, task: int, worker: int, label: int) -> float:
        """Count a label and return its task's score."""
        self._task[self._labels] = task
        self._answer[self._labels] = 2 * worker + (label > 0)
        self._labels += 1
        reweight(
            task,
            worker,
            label > 0,
            self._given,
            self._guess,
            self._place,
            self._support.shape[1],
            self._weight,
            self._prior.alpha,
            self._prior.beta,
        )
        if self._labels % self._labels_between_sweeps == 0:
            self.sweep()
        else:
            weigh_guesses(self._guess, self._weight, self.score)
        return float(self.score[task])

    def sweep(self) -> None:
        """Redraw every truth of every particle, given the others; the weights return to 1."""
        given = slice(self._labels)
        answer, end = by_task(self._task[given], self._answer[given], len(self.score))
        draw = self._rng.random(self._guess.shape)
        log_odds = self._prior.log_odds
        sweep(answer, end, self._guess, self._place, self._support.ravel(), log_odds, draw)
        self._weight[:] = 1
        weigh_guesses(self._guess, self._weight, self.score)

    def estimate(self) -> Estimate:
        """Estimate every task from the labels so far."""
        return Estimate(self.score.copy(), is_log_odds=False)


def mc(size: CrowdSize, prior: Prior, rng: np.random.Generator) -> ParticleFilter:
    """Start MC."""
    return ParticleFilter(*size, prior, rng)


def support(most_labels: int, prior: Prior) -> Floats:
    """Get what a label adds to the log-odds of the guess on its task, against the opposite guess.

    At [n, r, 1] if the label agrees with the guess and at [n, r, 0] if not, for a worker with n
    labels of which r agree, including this one. A label does not count in its own weight:

        log((r - 1 + α) / (n - r + β))    and    -log((r + α) / (n - 1 - r + β))

    Impossible combinations (r - 1, n - r or n - 1 - r below 0) are never read.
    """
    n, r = np.mgrid[: most_labels + 1, : most_labels + 1]
    agrees = np.log((np.maximum(r - 1, 0) + prior.alpha) / (np.maximum(n - r, 0) + prior.beta))
    opposes = -np.log((r + prior.alpha) / (np.maximum(n - 1 - r, 0) + prior.beta))
    return np.stack([opposes, agrees], axis=-1)


@compiled
def weigh_guesses(guess: Guesses, weight: Floats, score: Floats) -> None:
    """Σ w y_i / Σ w for every task i."""
    total = weight.sum()
    for i in range(len(score)):
        for_yes = 0.0
        for particle in range(len(weight)):
            for_yes += weight[particle] * guess[i, particle]
        score[i] = 2 * for_yes / total - 1


@compiled
def reweight(
    task: int,
    worker: int,
    says_yes: bool,
    given: Ints,
    guess: Guesses,
    place: TaskNumbers,
    counts: int,
    weight: Floats,
    alpha: float,
    beta: float,
) -> None:
    """Multiply each particle's weight by the probability of the label, and count the label.

    `place` is the index 2 (n counts + r) of a worker's n and r in `support`.
    """
    n = given[worker]
    given[worker] = n + 1
    for particle in range(len(weight)):
        r = place[worker, particle] // 2 - n * counts
        agrees = guess[task, particle] == says_yes
        weight[particle] *= (r + alpha if agrees else n - r + beta) / (n + alpha + beta)
        place[worker, particle] += 2 * (counts + agrees)


@compiled
def by_task(task: TaskNumbers, answer: TaskNumbers, tasks: int) -> tuple[TaskNumbers, Ints]:
    """Sort the answers by task; also return where those of each task end."""
    end = np.cumsum(np.bincount(task, minlength=tasks))
    place = end.copy()
    sorted_answer = np.empty_like(answer)
    for label in range(len(task) - 1, -1, -1):
        place[task[label]] -= 1
        sorted_answer[place[task[label]]] = answer[label]
    return sorted_answer, end


@compiled
def sweep(
    answer: TaskNumbers,
    end: Ints,
    guess: Guesses,
    place: TaskNumbers,
    support: Floats,
    prior_log_odds: float,
    draw: Floats,
) -> None:
    """Redraw every y_i of every particle; the answers 2j + (x > 0) to task i end at end[i].

    The innermost loops are over the particles and have no branches, so that they are vectorised.
    """
    particles = guess.shape[1]
    log_odds = np.empty(particles)  # of the guess against its opposite
    is_flipped = np.empty(particles, np.int32)
    first = 0
    for i in range(len(end)):
        for p in range(particles):
            log_odds[p] = prior_log_odds if guess[i, p] else -prior_log_odds
        for k in range(first, end[i]):
            j, says_yes = answer[k] >> 1, answer[k] & 1
            for p in range(particles):
                log_odds[p] += support[place[j, p] + 1 - (says_yes ^ guess[i, p])]
        for p in range(particles):
            is_flipped[p] = draw[i, p] * (1 + exp(min(log_odds[p], 700.0))) < 1
        for k in range(first, end[i]):
            j, says_yes = answer[k] >> 1, answer[k] & 1
            for p in range(particles):
                change = 2 * is_flipped[p]
                place[j, p] += change if says_yes ^ guess[i, p] else -change
        for p in range(particles):
            guess[i, p] ^= is_flipped[p]
        first = end[i]
