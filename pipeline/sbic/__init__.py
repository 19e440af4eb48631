"""Real-time truth from crowds, on Kafka.

>>> from sbic import Settled
>>> Settled().fit_predict([("t1", "ann", "cat"), ("t1", "bob", "cat"), ("t1", "eve", "dog")])
{'t1': 'cat'}
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sbic.client import AsyncClient, Client
    from sbic.infer.dawid_skene import DawidSkene, MajorityVote
    from sbic.infer.fast_sbic import FastSBIC
    from sbic.infer.settled import Settled

__all__ = [
    "AsyncClient",
    "Client",
    "DawidSkene",
    "FastSBIC",
    "MajorityVote",
    "Settled",
    "__version__",
]

__version__ = "0.1.0"

PUBLIC = {
    "AsyncClient": "sbic.client",
    "Client": "sbic.client",
    "DawidSkene": "sbic.infer.dawid_skene",
    "FastSBIC": "sbic.infer.fast_sbic",
    "MajorityVote": "sbic.infer.dawid_skene",
    "Settled": "sbic.infer.settled",
}


def __getattr__(name: str) -> Any:
    """Import a public name on first use: commands start without what they do not need."""
    if name not in PUBLIC:
        raise AttributeError(f"module 'sbic' has no attribute '{name}'")
    return getattr(import_module(PUBLIC[name]), name)
