"""The engine: labels, beliefs and counts in arrays, and the formulas that update them.

Tasks, workers and classes are integers; `labels` numbers their names. `engine` is the interface;
the other modules are compiled loops over one `State`.
"""

from typing import Literal

AlgorithmName = Literal["fast-sbic", "settled"]
"""The algorithms that the engine, and therefore the pipeline, can run."""

RETRACT = -1
"""In place of an answer: the worker takes the label back."""
