"""A Python client of the pipeline, over the gateway's HTTP or directly on Kafka.

    from sbic import Client

    with Client("http://127.0.0.1:8080") as crowd:
        place = crowd.send({"task": "t1", "worker": "ann", "label": 1})
        print(crowd.posterior("t1", counting=place))

`AsyncClient` has the same methods for asyncio. With an address such as `kafka://127.0.0.1:9092`
the client uses Kafka directly.
"""

from sbic.client.client import AsyncClient, Client
from sbic.client.transport import (
    Assignment,
    BadLabels,
    ClientError,
    Label,
    NotAllowed,
    Place,
    Posterior,
    TimedOut,
    Unreachable,
)

__all__ = [
    "Assignment",
    "AsyncClient",
    "BadLabels",
    "Client",
    "ClientError",
    "Label",
    "NotAllowed",
    "Place",
    "Posterior",
    "TimedOut",
    "Unreachable",
]
