"""The package declares what it imports, and works where nothing but its wheel is."""

import ast
import os
import subprocess
import sys
import sysconfig
import tomllib
import venv
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


NOT_HERE = {"inspect-ai": "inspect_ai"}
"""Extras that only `make integrations` installs, and their modules."""


def imported(tree: ast.AST, at_start: bool = False) -> Iterator[str]:
    """The modules of others that a file imports; those it imports at its start, or all.

    What is in a `try` for ImportError may be missing.
    """
    for node in ast.iter_child_nodes(tree):
        is_later = (
            isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
            or (isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING")
            or (isinstance(node, ast.Try) and "except ImportError" in ast.unparse(node))
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
    if distribution in NOT_HERE:
        top = NOT_HERE[distribution]
        return {name for asked in ASKED.values() for name in asked if name.split(".")[0] == top}
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


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The `bin` of an environment with a wheel of this checkout and its dependencies.

    The dependencies are those of this environment. Files `.pth` in a folder that was itself added
    by one are not read, so the checkout does not come along.
    """
    folder = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True)
    (wheel,) = folder.glob("*.whl")
    venv.create(folder / "env")
    scheme = {"base": str(folder / "env"), "platbase": str(folder / "env")}
    packages = Path(sysconfig.get_path("purelib", vars=scheme))
    here = {sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}
    (packages / "dependencies.pth").write_text("\n".join(here))
    python = folder / "env/bin/python"
    pip = [sys.executable, "-m", "pip", "--python", str(python), "install", "--quiet"]
    options = ["--no-index", "--no-deps", "--ignore-installed", "--disable-pip-version-check"]
    subprocess.run([*pip, *options, str(wheel)], check=True, capture_output=True)
    return python.parent


def ran(folder: Path, *command: str) -> str:
    """What an installed program prints, with no way to find the checkout."""
    clean = {
        name: value
        for name, value in os.environ.items()
        if name != "PYTHONPATH" and not name.startswith("SBIC_")
    }
    program, *arguments = command
    line = [str(folder / program), *arguments]
    done = subprocess.run(line, cwd=folder, env=clean, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.timeout(600)  # it compiles afresh
def test_the_wheel_runs_the_command(installed: Path) -> None:
    assert "Real-time truth from crowds" in ran(installed, "sbic", "--help")
    labels = installed / "labels.csv"
    labels.write_text("task,worker,label\nt1,ann,1\nt1,bob,1\nt1,eve,-1\nt2,ann,-1\nt2,bob,-1\n")
    _, *rows = ran(installed, "sbic", "infer", str(labels)).splitlines()
    assert [row.split(",")[0] for row in rows] == ["t1", "t2"]


def test_the_wheel_has_the_public_names(installed: Path) -> None:
    program = "import sbic; from sbic import *; print(sbic.__file__)"
    found = ran(installed, "python", "-c", program)
    assert Path(found.strip()).is_relative_to(installed.parent)


def test_the_wheel_has_all_files_of_the_package_and_the_schemas(installed: Path) -> None:
    program = "import pathlib, sbic; print(pathlib.Path(sbic.__file__).parent)"
    there = Path(ran(installed, "python", "-c", program).strip())
    listed = ["git", "ls-files", "pipeline/sbic"]
    ours = subprocess.run(listed, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    missing = [
        name
        for name in ours.splitlines()
        if (ROOT / name).exists() and not (there / Path(name).relative_to("pipeline/sbic")).exists()
    ]
    assert not missing
    schemas = {path.name for path in (ROOT / "schemas").iterdir()}
    assert schemas == {path.name for path in (there / "gateway/schema_files").iterdir()}
