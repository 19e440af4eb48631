"""The settings, metrics, files and tests that the documents name exist."""

import re

import pytest

from sbic.commands.main import misspelt
from sbic.infer.registry import ALGORITHMS
from tests.docs.documents import DOCUMENTS, ROOT, Document, document
from tests.docs.generate.metrics import families
from tests.docs.generate.registries import (
    gateway_registries,
    instance_registries,
    push_registries,
    sink_registries,
)

by_name = pytest.mark.parametrize("document", DOCUMENTS, ids=repr)
SOURCES = ROOT / "pipeline"
FOLDERS = "pipeline|tests|docs|deploy|schemas"


@pytest.fixture(scope="module")
def series() -> set[str]:
    """The names of all metrics and of their series."""
    registries = (instance_registries(), gateway_registries(), sink_registries(), push_registries())
    found = [family for some in registries for family in families(some)]
    return {family.name for family in found} | {name for each in found for name in each.series}


@by_name
def test_settings_exist(document: Document) -> None:
    named = set(re.findall(r"\bSBIC_[A-Z_]*[A-Z]\b(?!_?\*)", document.text))
    assert misspelt(named) == []


@by_name
def test_metrics_exist(document: Document, series: set[str]) -> None:
    named = set(re.findall(r"\bsbic_[a-z_]*[a-z]\b(?!_?\*)", document.text))
    assert named - series == set()


@by_name
def test_files_exist(document: Document) -> None:
    for code in document.inline_code():
        if re.fullmatch(rf"(?:{FOLDERS})/[\w./-]+(?:::\w+)?", code):
            path, _, test = code.partition("::")
            assert (ROOT / path).exists(), code
            assert not test or f"def {test}(" in (ROOT / path).read_text(), code


@by_name
def test_modules_exist(document: Document) -> None:
    for code in document.inline_code():
        if re.fullmatch(r"sbic(?:\.\w+){2,}", code):  # with one dot it is a topic
            parts = code.split(".")
            paths = [SOURCES.joinpath(*parts), SOURCES.joinpath(*parts[:-1])]
            assert any(path.is_dir() or path.with_suffix(".py").is_file() for path in paths), code


def test_the_models_page_has_every_algorithm() -> None:
    models = document("docs/models.md").inline_code()
    assert [name for name in ALGORITHMS if name not in models] == []
