"""The pages of docs/reference, and what makes each."""

from collections.abc import Callable, Mapping
from pathlib import Path

from tests.docs.generate.commands import commands_page
from tests.docs.generate.metrics import metrics_page
from tests.docs.generate.settings import settings_page
from tests.docs.generate.wire import wire_page

FOLDER = Path(__file__).parent.parent.parent.parent / "docs" / "reference"
PAGES: Mapping[str, Callable[[], str]] = {
    "commands.md": commands_page,
    "metrics.md": metrics_page,
    "settings.md": settings_page,
    "wire.md": wire_page,
}
