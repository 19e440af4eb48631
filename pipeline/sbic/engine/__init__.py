"""The engine: labels, beliefs and counts in arrays, and the formulas that update them.

Tasks, workers and classes are integers; `labels` numbers their names. `engine` is the interface;
the other modules are compiled loops over one `State`.
"""

from typing import Literal

AlgorithmName = Literal["fast-sbic", "settled"]
"""The algorithms that the engine, and therefore the pipeline, can run."""

RETRACT = -1
"""In place of an answer: the worker takes the label back."""

SIGN_NAMES = ("-1", "1")
"""The classes of the paper, in order: answer 0 is the label -1, answer 1 is +1."""
