"""The package declares what it imports, and works where nothing but its wheel is."""

import ast
import importlib
import inspect
import os
import re
import subprocess
import sys
import sysconfig
import tomllib
import venv
from collections import Counter
from collections.abc import Iterator
from importlib.metadata import files
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from sbic.engine.compiled import IS_COMPILED
from sbic.runtime.faust.app import BatchedWorker

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


# The packages form a one-way graph, and no class name stands for two things.


# in a process of its own: it sets up logging, and other tests read logs
LINT = "import sys; from importlinter import cli; sys.exit(cli.lint_imports(no_cache=True))"


def test_inner_code_never_imports_outer_code() -> None:
    run = subprocess.run([sys.executable, "-c", LINT], cwd=ROOT, capture_output=True, text=True)
    assert run.returncode == 0, run.stdout + run.stderr


def test_no_class_name_stands_for_two_things() -> None:
    files = [path for folder in ("pipeline", "tests") for path in (ROOT / folder).rglob("*.py")]
    names = [re.findall(r"^class (\w+)", path.read_text(), re.MULTILINE) for path in files]
    found = Counter(name for some in names for name in some)
    assert len(found) > 500
    assert [name for name, times in found.items() if times > 1] == []


# the client's users import the dictionary of this name from `sbic.client`
OF_THE_CLIENT = ["Posterior"]


def test_no_name_of_a_type_stands_for_two_things_in_the_package() -> None:
    aliases = re.compile(r"^([A-Z][a-z]\w+) = (?!TypeVar)", re.MULTILINE)
    texts = [path.read_text() for path in (ROOT / "pipeline").rglob("*.py")]
    classes = [name for text in texts for name in re.findall(r"^class (\w+)", text, re.MULTILINE)]
    found = Counter(classes + [name for text in texts for name in set(aliases.findall(text))])
    assert len(found) > 500
    assert [name for name, times in found.items() if times > 1] == OF_THE_CLIENT


# Private attributes of Faust and aiokafka are used in `sbic/runtime/faust` only.
#
# They change without notice: the one who upgrades has one package to look through.


PACKAGE = Path(__file__).parent.parent / "pipeline/sbic"
PUBLIC = {"_asdict", "_fields", "_make", "_replace", "_exit"}
"""The documented attributes of named tuples and of `os` that begin with an underscore."""
OF_OTHER_LIBRARIES = {"engine/compiled.py"}
"""Uses private attributes of numba."""
LIBRARIES = {"aiokafka", "faust", "mode"}


def is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__") and name not in PUBLIC


def foreign_attributes(source: str) -> list[str]:
    """The private attributes of objects other than `self`, its class and its base classes."""
    own = ("self", "cls", "super()")
    return [
        ast.unparse(node)
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Attribute)
        and is_private(node.attr)
        and ast.unparse(node.value) not in own
    ]


def inherited_attributes(cls: type) -> set[str]:
    """The private attributes of a library's classes that a class overrides or uses."""
    inherited = {
        name
        for base in cls.__mro__
        if base.__module__.split(".")[0] in LIBRARIES
        for name in {*vars(base), *getattr(base, "__annotations__", {}), *named_in(base)}
        if is_private(name)
    }
    return inherited & named_in(cls)


def named_in(cls: type) -> set[str]:
    """The methods that the source of a class defines, and the attributes of `self` in it."""
    tree = ast.parse(inspect.cleandoc("\n" + inspect.getsource(cls)))
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            found.add(node.name)
        elif isinstance(node, ast.Attribute) and ast.unparse(node.value) in ("self", "super()"):
            found.add(node.attr)
    return found


FILES = {
    str(path.relative_to(PACKAGE)): path.read_text()
    for path in sorted(PACKAGE.rglob("*.py"))
    if path.relative_to(PACKAGE).parts[:2] != ("runtime", "faust")
}
INHERITS = re.compile(r"^(from|import) (aiokafka|faust|mode|sbic\.runtime\.faust)\b", re.MULTILINE)


def classes() -> Iterator[type]:
    """The classes outside it that may inherit from a library's."""
    for path, source in FILES.items():
        if INHERITS.search(source):
            name = "sbic." + path.removesuffix(".py").replace("/", ".")
            members = inspect.getmembers(importlib.import_module(name), inspect.isclass)
            yield from (cls for _, cls in members if cls.__module__ == name)


def test_no_private_attribute_of_another_object_is_used() -> None:
    found = {
        path: foreign_attributes(source)
        for path, source in FILES.items()
        if path not in OF_OTHER_LIBRARIES
    }
    assert {path: used for path, used in found.items() if used} == {}


def test_no_class_uses_a_private_attribute_that_it_inherits_from_a_library() -> None:
    found = {cls.__qualname__: inherited_attributes(cls) for cls in classes()}
    assert len(found) > 20
    assert {name: used for name, used in found.items() if used} == {}


def test_the_checks_see_what_they_look_for() -> None:
    assert foreign_attributes("consumer._client.close()") == ["consumer._client"]
    assert foreign_attributes("self._client.close(); row._replace(key=b'')") == []
    found = inherited_attributes(BatchedWorker)
    assert {"_signal_stop_time", "_on_sigterm", "_starting_fut"} <= found


# An instance compiles and loads nothing once it is warmed up, so that its first label is fast.


# A label, and then the life of a project: many names, gold, two instances, rebalances, recoveries.
LIFE = """
import sys
from numba.core.dispatcher import Dispatcher
from sbic.instance.warm_up import warm_up_instance
from tests.stages.assigning import AssigningInstance
from tests.stages.simulated.member import SimulatedCluster
from tests.stages.simulated.member import SimulatedMember
from tests.stages.simulated.log import Log
from tests.stages.simulated.one_instance import OneInstance
from tests.stages.simulated.project import SimulatedProject
from sbic.instance.requests import Rules

def loaded():
    modules = [module for name, module in sys.modules.items() if name.startswith("sbic.")]
    found = [value for module in modules for value in vars(module).values()]
    return {(one, sig) for one in found if isinstance(one, Dispatcher) for sig in one.signatures}

warm_up_instance()
before = loaded()
project = SimulatedProject(algorithm=sys.argv[1])
instance = OneInstance(Log(partitions=2), project)
for task, worker, label in ("t1", "ann", 1), ("t2", "ann", -1), ("t1", "bob", 1):
    instance.label(task, worker, label)
instance.label("t1", "ann", None)
instance.count()
instance.describe({"task": "t2", "gold": 1, "prior": 0.4})
instance.publish_all()
assert instance.results()["t1"]["labels"] == 1

log = Log(partitions=4)
cluster = SimulatedCluster(log, project)
first, second, third = (SimulatedMember(log, project) for _ in range(3))
for members, owners in ([first], [0]), ([first, second], [0, 1]), ([second, third], [1, 0]):
    cluster.rebalance(members, owners * (4 // len(owners)))
    for number in range(60):
        log.produce(f"t{number % 40}", f"w{number} of {len(owners)}", 1 - 2 * (number % 2))
    log.produce("t1", "w1 of 1", None)
    cluster.settle()
assert sum(found["labels"] for found in log.posteriors().values()) > 100

for policy in "uniform", "uncertainty":
    assigning = AssigningInstance(Rules(policy=policy, gold_rate=0.5))
    assigning.describe({"task": f"t{number}"} for number in range(40))
    assigning.describe({"task": f"gold {number}", "gold": 1} for number in range(3))
    for number in range(30):
        [given] = assigning.ask(f"w{number % 5}")
        assigning.instance.label(given["task"], f"w{number % 5}", 1)
    assigning.successor(Rules(policy=policy, gold_rate=0.5)).ask("w1", 20)
print(sorted({f"{one.py_func.__module__}.{one.py_func.__name__}" for one, _ in loaded() - before}))
"""


@pytest.mark.skipif(not IS_COMPILED, reason="numba is not installed")
@pytest.mark.parametrize("algorithm", ["fast-sbic", "settled"])
def test_labels_recoveries_and_requests_compile_and_load_nothing(algorithm: str) -> None:
    done = subprocess.run([sys.executable, "-c", LIFE, algorithm], capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("[]\n", "")
