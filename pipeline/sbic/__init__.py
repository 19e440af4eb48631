"""Real-time truth from crowds, on Kafka.

>>> from sbic import Settled
>>> crowd = Settled()
>>> for task, worker, label in [("t1", "ann", 1), ("t1", "bob", 1), ("t1", "eve", -1)]:
...     vote = crowd.observe(task, worker, label)
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sbic.client import AsyncClient, Client
    from sbic.infer.fast_sbic import FastSBIC
    from sbic.infer.settled import Settled

__all__ = ["AsyncClient", "Client", "FastSBIC", "Settled", "__version__"]

__version__ = "0.1.0"

PUBLIC = {
    "AsyncClient": "sbic.client",
    "Client": "sbic.client",
    "FastSBIC": "sbic.infer.fast_sbic",
    "Settled": "sbic.infer.settled",
}


def __getattr__(name: str) -> Any:
    """Import a public name on first use: commands start without what they do not need."""
    if name not in PUBLIC:
        raise AttributeError(f"module 'sbic' has no attribute '{name}'")
    return getattr(import_module(PUBLIC[name]), name)
