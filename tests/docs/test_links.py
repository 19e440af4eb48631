"""Every link leads somewhere, and every page can be reached from the README."""

import pytest

from tests.docs.documents import DOCUMENTS, ROOT, Document, document

by_name = pytest.mark.parametrize("page", DOCUMENTS, ids=repr)


@by_name
def test_links_and_anchors_lead_somewhere(page: Document) -> None:
    for link in page.links():
        if link.startswith(("https://", "http://")):
            continue
        path, _, anchor = link.partition("#")
        target = (page.path.parent / path).resolve() if path else page.path
        assert target.exists(), link
        if anchor:
            assert anchor in Document(target).anchors(), link


def test_every_page_can_be_reached_from_the_readme() -> None:
    reached, waiting = set(), [document("README.md").path]
    while waiting:
        path = waiting.pop()
        if path in reached:
            continue
        reached.add(path)
        links = (link.partition("#")[0] for link in Document(path).links())
        waiting += [
            target
            for link in links
            if link.endswith(".md") and (target := (path.parent / link).resolve()).is_file()
        ]
    assert {page.path for page in DOCUMENTS} - reached == set()


def test_the_readme_can_be_read_in_five_minutes() -> None:
    assert len((ROOT / "README.md").read_text().splitlines()) <= 160
