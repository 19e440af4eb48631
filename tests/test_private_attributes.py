"""Private attributes of Faust and aiokafka are used in `sbic/runtime/faust` only.

They change without notice: the one who upgrades has one package to look through.
"""

import ast
import importlib
import inspect
import re
from collections.abc import Iterator
from pathlib import Path

from sbic.runtime.faust.app import BatchedWorker

ROOT = Path(__file__).parent.parent / "pipeline/sbic"
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
    str(path.relative_to(ROOT)): path.read_text()
    for path in sorted(ROOT.rglob("*.py"))
    if path.relative_to(ROOT).parts[:2] != ("runtime", "faust")
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
