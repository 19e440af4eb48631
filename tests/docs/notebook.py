"""Runs the notebook of the documents: `python -m tests.docs.notebook` writes its outputs.

Nothing of Jupyter is needed: a notebook is JSON, and a cell is Python whose last expression is
shown, with the pictures that it has drawn.
"""

import ast
from base64 import b64encode
from collections.abc import Iterator
from contextlib import redirect_stdout
from io import BytesIO, StringIO
from pathlib import Path
from typing import Any

import matplotlib as mpl
from orjson import OPT_APPEND_NEWLINE, OPT_INDENT_2, dumps, loads

NOTEBOOK = Path(__file__).parent.parent.parent / "docs" / "notebook.ipynb"

Output = dict[str, Any]


def outputs_of(notebook: dict[str, Any]) -> Iterator[list[Output]]:
    """Run all cells in order; yields the outputs of each cell with code."""
    mpl.use("agg")
    names: dict[str, Any] = {}
    for number, cell in enumerate(code_cells(notebook), 1):
        yield run("".join(cell["source"]), names, number)


def code_cells(notebook: dict[str, Any]) -> list[dict[str, Any]]:
    return [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]


def run(source: str, names: dict[str, Any], number: int) -> list[Output]:
    """What a cell prints and draws, and its last expression."""
    from matplotlib import pyplot

    tree = ast.parse(source)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    printed, found = StringIO(), list[Output]()
    with redirect_stdout(printed):
        exec(compile(tree, f"cell {number}", "exec"), names)
        value = None
        if isinstance(last, ast.Expr):
            value = eval(compile(ast.Expression(last.value), f"cell {number}", "eval"), names)
    if printed.getvalue():
        found.append({"output_type": "stream", "name": "stdout", "text": lines(printed.getvalue())})
    if pyplot.get_fignums():
        found += [drawn(pyplot.figure(figure)) for figure in pyplot.get_fignums()]
        pyplot.close("all")
    elif value is not None:
        data = {"text/plain": lines(repr(value))}
        if hasattr(value, "_repr_html_"):
            data = {"text/html": lines(value._repr_html_()), **data}
        result = {"output_type": "execute_result", "execution_count": number}
        found.append({"data": data, "metadata": {}, **result})
    return found


def drawn(figure: Any) -> Output:
    """A picture, without the date and the version that would change it every time."""
    file = BytesIO()
    figure.savefig(file, dpi=80, bbox_inches="tight", metadata={"Software": None})
    data = {"image/png": b64encode(file.getvalue()).decode()}
    return {"output_type": "display_data", "data": data, "metadata": {}}


def lines(text: str) -> list[str]:
    return text.splitlines(keepends=True)


def main() -> None:
    """Write the notebook again, with its outputs."""
    notebook = loads(NOTEBOOK.read_bytes())
    for number, (cell, outputs) in enumerate(
        zip(code_cells(notebook), outputs_of(notebook), strict=True), 1
    ):
        cell["outputs"], cell["execution_count"] = outputs, number
    NOTEBOOK.write_bytes(dumps(notebook, option=OPT_INDENT_2 | OPT_APPEND_NEWLINE))


if __name__ == "__main__":
    main()
