"""The generated pages are what the code generates."""

import pytest

from tests.docs.generate.reference import FOLDER, PAGES


@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_as_generated(name: str) -> None:
    assert (FOLDER / name).read_text() == PAGES[name](), "run: make docs"


def test_no_other_page_is_there() -> None:
    assert {path.name for path in FOLDER.iterdir()} == set(PAGES)
