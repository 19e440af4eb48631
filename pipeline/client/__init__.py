"""A client of the pipeline, for Python: over the gateway's HTTP, or on Kafka itself.

    from pipeline.client import Client

    with Client("http://127.0.0.1:8080") as crowd:
        place = crowd.send({"task": "t1", "worker": "ann", "label": 1})
        print(crowd.posterior("t1", counting=place))

`AsyncClient` has the same methods for asyncio. `kafka://127.0.0.1:9092` in place of the address
of a gateway talks to Kafka.
"""

from pipeline.client.asynchronous import AsyncClient
from pipeline.client.errors import BadLabels, ClientError, NotAllowed, TimedOut, Unreachable
from pipeline.client.synchronous import Client
from pipeline.client.transport import Assignment, Label, Place, Posterior

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
