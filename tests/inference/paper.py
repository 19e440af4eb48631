"""Algorithms 1 and 2 as the paper prints them, line by line: slow, and what ours must equal.

In line 5 of Algorithm 1 and line 6 of Algorithm 2, M_j^t is without the label being processed.
"""

from collections.abc import Sequence
from math import exp, log

from sbic.engine.labels import Prior

Triple = tuple[int, int, int]
Answers = dict[int, dict[int, int]]


def expit(z: float) -> float:
    return 1 / (1 + exp(-z))


def mean_accuracy(answers: dict[int, int], z: dict[int, float], prior: Prior) -> float:
    """Line 5: p̄_j from what j said on each task of M_j."""
    c = sum(expit(x * z[h]) for h, x in answers.items())
    return (c + prior.alpha) / (len(answers) + prior.alpha + prior.beta)


def without(answers: dict[int, int], k: int) -> dict[int, int]:
    """M_j \\ k."""
    return {h: x for h, x in answers.items() if h != k}


def algorithm_1(triples: Sequence[Triple], tasks: int, prior: Prior) -> list[float]:
    """Fast SBIC: z_i at the end."""
    z = {i: log(prior.q / (1 - prior.q)) for i in range(tasks)}
    said: Answers = {}
    for i, j, x in triples:
        p = mean_accuracy(said.setdefault(j, {}), z, prior)
        z[i] = z[i] + x * log(p / (1 - p))
        said[j][i] = x
    return [z[i] for i in range(tasks)]


def algorithm_2(triples: Sequence[Triple], tasks: int, prior: Prior) -> list[list[float]]:
    """Sorted SBIC online, a view for each task: z_i after each label."""
    s = {k: {i: log(prior.q / (1 - prior.q)) for i in range(tasks)} for k in range(tasks)}
    said: Answers = {}
    after_each = []
    for t, (i, j, x) in enumerate(triples):
        said.setdefault(j, {})
        for k in range(tasks):
            if k != i:
                p = mean_accuracy(without(said[j], k), s[k], prior)
                s[k][i] = s[k][i] + x * log(p / (1 - p))
        said[j][i] = x
        z = [log(prior.q / (1 - prior.q))] * tasks
        for i_u, j_u, x_u in triples[: t + 1]:
            p = mean_accuracy(without(said[j_u], i_u), s[i_u], prior)
            z[i_u] = z[i_u] + x_u * log(p / (1 - p))
        after_each.append(z)
    return after_each


def shared_views(triples: Sequence[Triple], tasks: int, prior: Prior) -> list[float]:
    """Sorted SBIC offline: each half of the tasks gets a view that has seen the other half."""
    z: dict[int, float] = {}

    def descend(group: list[int], seen: list[Triple]) -> None:
        if len(group) == 1:
            own = [triple for triple in triples if triple[0] == group[0]]
            z[group[0]] = algorithm_1(seen + own, tasks, prior)[group[0]]
            return
        half = len(group) // 2
        first, second = group[:half], group[half:]
        descend(first, seen + [triple for triple in triples if triple[0] in second])
        descend(second, seen + [triple for triple in triples if triple[0] in first])

    descend(list(range(tasks)), [])
    return [z[i] for i in range(tasks)]
