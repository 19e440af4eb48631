"""A Python client of the pipeline, over the gateway's HTTP or directly on Kafka.

    from pipeline.client import Client

    with Client("http://127.0.0.1:8080") as crowd:
        place = crowd.send({"task": "t1", "worker": "ann", "label": 1})
        print(crowd.posterior("t1", counting=place))

`AsyncClient` has the same methods for asyncio. With an address such as `kafka://127.0.0.1:9092`
the client uses Kafka directly.
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
