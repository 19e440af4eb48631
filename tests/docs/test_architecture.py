"""docs/architecture.md has every package, and the layers that the imports have."""

import re

from tests.docs.documents import document
from tests.test_layers import MAY_IMPORT

TEXT = document("docs/architecture.md").text
TREE, LAYERS = TEXT.split("## The tree")[1].split("## One-way layers")


def test_the_tree_has_every_package() -> None:
    rows = re.findall(r"^\| (`.*`) \|", TREE.split("|---|---|")[1], re.MULTILINE)
    assert {name for row in rows for name in re.findall(r"`(\w+)`", row)} == set(MAY_IMPORT)


def test_a_layer_imports_only_from_layers_above_it() -> None:
    above: set[str] = set()
    for row in re.findall(r"^\| \d \| (.*) \|$", LAYERS, re.MULTILINE):
        names = set(re.findall(r"`(\w+)`", row))
        for name in names:
            assert MAY_IMPORT[name] <= above, name
        above |= names
    assert above == set(MAY_IMPORT)
