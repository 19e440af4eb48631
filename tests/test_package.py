"""The package declares what it imports."""

import ast
import sys
import tomllib
from collections.abc import Iterator
from importlib.metadata import files
from pathlib import Path

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "pipeline/sbic"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
ALWAYS = [Requirement(line).name for line in PROJECT["dependencies"]]
EXTRAS = [
    Requirement(line).name for lines in PROJECT["optional-dependencies"].values() for line in lines
]


def imported(tree: ast.AST, at_start: bool = False) -> Iterator[str]:
    """The modules of others that a file imports; those it imports at its start, or all."""
    for node in ast.iter_child_nodes(tree):
        is_later = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) or (
            isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
        )
        if not (at_start and is_later):
            yield from filter(is_of_others, named(node))
            yield from imported(node, at_start)


def named(node: ast.AST) -> list[str]:
    """The modules that a statement, or a call of `import_module`, names."""
    match node:
        case ast.Import(names=names):
            return [alias.name for alias in names]
        case ast.ImportFrom(module=str(module), level=0):
            return [module]
        case ast.Call(func=ast.Name(id="import_module"), args=[ast.Constant(value=str(module))]):
            return [module]
    return []


def is_of_others(module: str) -> bool:
    top = module.partition(".")[0]
    return top != "sbic" and top not in sys.stdlib_module_names


def modules_of(distribution: str) -> set[str]:
    """The modules that a distribution brings, as installed."""
    found = [path.parts for path in files(distribution) or () if path.suffix in (".py", ".so")]
    return {
        ".".join([*folders, name.partition(".")[0]]).removesuffix(".__init__")
        for *folders, name in found
    }


ASKED = {path: set(imported(ast.parse(path.read_text()))) for path in SOURCE.rglob("*.py")}


def test_everything_imported_is_declared() -> None:
    there = set[str]().union(*map(modules_of, [*ALWAYS, *EXTRAS]))
    missing = {str(path.relative_to(ROOT)): asked - there for path, asked in ASKED.items()}
    assert not {path: names for path, names in missing.items() if names}


def test_what_is_imported_at_the_start_of_a_module_is_no_extra() -> None:
    there = set[str]().union(*map(modules_of, ALWAYS))
    missing = {
        str(path.relative_to(ROOT)): set(imported(ast.parse(path.read_text()), at_start=True))
        - there
        for path in ASKED
    }
    assert not {path: names for path, names in missing.items() if names}


@pytest.mark.parametrize("distribution", [*ALWAYS, *EXTRAS])
def test_everything_declared_is_imported(distribution: str) -> None:
    assert modules_of(distribution) & set[str]().union(*ASKED.values())
