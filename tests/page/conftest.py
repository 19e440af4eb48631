from collections.abc import Iterator

import pytest

from sbic.local.broker import EmbeddedBroker
from tests.page.browser import Browser, chromium
from tests.page.show import Show, running_show


@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    """One browser for all tests here; each opens the page anew."""
    with chromium() as running:
        yield running


@pytest.fixture(scope="package")
def show(browser: Browser, broker: EmbeddedBroker) -> Iterator[Show]:
    """One pipeline for all tests here, with a gateway; none where there is no browser."""
    with running_show(broker) as running:
        yield running
