"""docs/notebook.ipynb runs, and shows what it would show now."""

from typing import Any

import pytest
from orjson import loads

from tests.docs.notebook import NOTEBOOK, Output, code_cells, outputs_of

PICTURE = "image/png"


def texts(outputs: list[Output]) -> list[Any]:
    """What can be compared: a picture depends on the fonts of the machine."""
    return [
        each.get("text") or {kind: text for kind, text in each["data"].items() if kind != PICTURE}
        for each in outputs
    ]


@pytest.mark.filterwarnings("default")
def test_the_notebook_shows_what_it_computes() -> None:
    """If it fails because the numbers have changed: `python -m tests.docs.notebook`."""
    notebook = loads(NOTEBOOK.read_bytes())
    found = list(outputs_of(notebook))
    shown = [cell["outputs"] for cell in code_cells(notebook)]
    assert [texts(each) for each in found] == [texts(each) for each in shown]
    for outputs in (found, shown):
        drawn = [each for cell in outputs for each in cell if PICTURE in each.get("data", ())]
        assert len(drawn) == 3
        assert all(len(each["data"][PICTURE]) > 5000 for each in drawn)


def test_it_is_a_notebook_of_version_4() -> None:
    notebook = loads(NOTEBOOK.read_bytes())
    assert (notebook["nbformat"], notebook["nbformat_minor"]) == (4, 5)
    assert len({cell["id"] for cell in notebook["cells"]}) == len(notebook["cells"])
    for cell in notebook["cells"]:
        fields = {"cell_type", "id", "metadata", "source"}
        more = {"outputs", "execution_count"} if cell["cell_type"] == "code" else set()
        assert cell.keys() == fields | more
