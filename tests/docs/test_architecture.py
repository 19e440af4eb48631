"""docs/architecture.md has every package, and the layers that import-linter checks."""

import re
import tomllib

from tests.docs.documents import ROOT, document

TEXT = document("docs/architecture.md").text
TREE, LAYERS = TEXT.split("## The tree")[1].split("## One-way layers")
CONTRACT, *_ = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"][
    "contracts"
]
PACKAGES = {path.parent.name for path in (ROOT / "pipeline/sbic").glob("*/__init__.py")}


def test_the_tree_has_every_package() -> None:
    rows = re.findall(r"^\| (`.*`) \|", TREE.split("|---|---|")[1], re.MULTILINE)
    named = {name for row in rows for name in re.findall(r"`(\w+)`", row)}
    layers = {name for row in CONTRACT["layers"] for name in row.split(" : ")}
    assert named == layers >= PACKAGES


def test_the_layers_are_those_that_are_checked() -> None:
    rows = re.findall(r"^\| \d \| (.*) \|$", LAYERS, re.MULTILINE)
    named = [re.findall(r"`(\w+)`", row) for row in rows]
    assert named == [row.split(" : ") for row in reversed(CONTRACT["layers"])]
