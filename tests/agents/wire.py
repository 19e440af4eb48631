"""Checks the records on a project's topics against the schemas."""

from orjson import loads

from tests.agents.kafka import ProjectOnBroker
from tests.test_schemas import KINDS, VALIDATORS


async def agree_with_schemas(here: ProjectOnBroker) -> set[str]:
    """Validate every record of every public topic; the kinds of which there were any."""
    found = set()
    for kind in KINDS:
        for record in await here.read(f"{here.settings.prefix}.{kind}s"):
            if record.value is not None:  # a tombstone
                VALIDATORS[kind].validate(loads(record.value))
                found.add(kind)
    return found
