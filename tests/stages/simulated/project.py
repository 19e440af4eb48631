"""The settings that the instances of a simulated project share."""

from dataclasses import dataclass
from typing import Literal

from sbic.classes import SIGNS, Classes
from sbic.engine import AlgorithmName
from sbic.engine.copies import COMMON
from sbic.engine.labels import Prior
from sbic.instance.tasks import NO_RULES, StopRules
from sbic.wire.seal import KEY_BYTES, Seal

SEAL = Seal(bytes(KEY_BYTES))
PRIOR = Prior(alpha=2.0, beta=1.5, q=0.3)


@dataclass(frozen=True)
class SimulatedProject:
    """The settings that all instances share.

    Without a fence a stalled instance still publishes, late, what it had in flight.
    """

    algorithm: AlgorithmName = "fast-sbic"
    classes: Classes = SIGNS
    repeats: Literal["first", "last"] = "first"
    rules: StopRules = NO_RULES
    tolerance: float = 1e-9
    prior: Prior = PRIOR
    is_fenced: bool = True
    is_flat: bool = False
    common: int = COMMON
