"""docs/architecture.md has every package, and the layers that the imports have."""

import re

from tests.docs.documents import ROOT, document
from tests.test_layers import MAY_IMPORT

TEXT = document("docs/architecture.md").text
TREE, LAYERS = TEXT.split("## The tree")[1].split("## One-way layers")
PACKAGES = {path.parent.name for path in (ROOT / "pipeline").glob("*/__init__.py")}


def test_the_tree_has_every_package() -> None:
    rows = re.findall(r"^\| (`.*`) \|", TREE.split("|---|---|")[1], re.MULTILINE)
    named = {name for row in rows for name in re.findall(r"`(\w+)`", row)}
    assert PACKAGES <= named <= set(MAY_IMPORT)


def test_a_layer_imports_only_from_layers_above_it() -> None:
    rows = re.findall(r"^\| \d \| (.*) \|$", LAYERS, re.MULTILINE)
    layers = [set(re.findall(r"`(\w+)`", row)) for row in rows]
    named = set().union(*layers)
    assert named >= PACKAGES
    above: set[str] = set()
    for layer in layers:
        for name in layer:
            assert MAY_IMPORT[name] & named <= above, name
        above |= layer
