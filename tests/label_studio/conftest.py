"""One real Label Studio for all tests that need it, since it takes minutes to start."""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from aiohttp import ClientSession

from sbic.local.java import free_port
from tests.label_studio.real import RealLabelStudio, started


@pytest_asyncio.fixture(scope="package")
async def studio(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[RealLabelStudio]:
    """A Label Studio that may post to private addresses and ask machine learning there."""
    port = free_port()
    folder = tmp_path_factory.mktemp("label-studio")
    with started(folder, port, SSRF_PROTECTION_ENABLED="false", ML_BLOCK_LOCAL_IP="false"):
        async with ClientSession() as http:
            found = RealLabelStudio(f"http://127.0.0.1:{port}", http, folder)
            await found.until_up()
            yield found
