"""How tasks are assigned: the policy and the settings that a stage needs."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import log
from typing import Literal

from pipeline.inference.algorithm import Prior
from pipeline.policies.policy import Policy
from pipeline.policies.uncertainty import Uncertainty
from pipeline.policies.uniform import Uniform
from pipeline.records.assignments import Refusal

PolicyName = Literal["uncertainty", "uniform"]
LEAST_WEIGHT = 0.1  # of an expected label: with α = β it would be 0, and all get the same task


@dataclass(frozen=True)
class Rules:
    """How tasks are assigned; see the settings of the same names."""

    policy: PolicyName = "uncertainty"
    seed: int = 0
    lease_ms: int = 600_000
    assign_on_label: bool = False
    gold_rate: float = 0.0
    block_below: float | None = None
    block_after: int = 0
    budget: int | None = None


def policy_of(name: PolicyName, tasks: Sequence[str], seed: int, prior: Prior) -> Policy:
    """The policy of this name; an expected label weighs log(α / β), as a new worker's does.

    >>> policy_of("uniform", ["t1", "t2"], 1, Prior()).__class__.__name__
    'Uniform'
    """
    if name == "uniform":
        return Uniform(tasks, seed)
    return Uncertainty(tasks, seed, max(LEAST_WEIGHT, abs(log(prior.alpha / prior.beta))))


def outcomes() -> Iterator[str]:
    """All outcomes of an assignment, for the metric: the policies and the refusals."""
    yield from ("uncertainty", "uniform", "gold")
    yield from Refusal
