"""The packages form a one-way graph: inner code never imports outer code."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent / "pipeline"

# Each package or module of `pipeline`, with what it may import besides itself.
MAY_IMPORT: dict[str, set[str]] = {
    "batched": set(),
    "classes": set(),
    "inference": set(),
    "partitioner": set(),
    "progress": set(),
    "security": set(),
    "setting_values": {"classes"},
    "spec": set(),
    "files": {"inference"},
    "foreign": set(),
    "policies": {"inference"},
    "records": {"classes", "inference"},
    "settings": {"classes", "inference", "security", "setting_values", "spec"},
    "experiments": {"files", "inference", "policies", "progress"},
    "hints": {"settings"},
    "stages": {"classes", "inference", "partitioner", "policies", "records"},
    "topics": {"records", "settings"},
    "kafka": {"hints", "partitioner", "records", "security", "settings", "topics"},
    "warm_up": {"classes", "inference", "policies", "records", "stages"},
    "label_studio": {
        "classes",
        "files",
        "kafka",
        "partitioner",
        "progress",
        "records",
        "settings",
        "topics",
    },
    "project": {
        "classes",
        "inference",
        "kafka",
        "progress",
        "security",
        "setting_values",
        "settings",
        "topics",
    },
    "transfer": {
        "classes",
        "hints",
        "inference",
        "kafka",
        "partitioner",
        "progress",
        "records",
        "settings",
        "topics",
    },
    "agents": {
        "batched",
        "classes",
        "inference",
        "kafka",
        "project",
        "records",
        "settings",
        "stages",
        "topics",
        "warm_up",
    },
    "local": {"project", "settings"},
    "status": {"inference", "kafka", "progress", "records", "settings", "topics", "transfer"},
    "client": {
        "kafka",
        "partitioner",
        "project",
        "records",
        "security",
        "settings",
        "status",
        "topics",
    },
    "gateway": {
        "hints",
        "inference",
        "kafka",
        "label_studio",
        "partitioner",
        "project",
        "records",
        "settings",
        "spec",
        "status",
        "topics",
        "transfer",
    },
    "simulation": {
        "classes",
        "inference",
        "kafka",
        "local",
        "progress",
        "project",
        "records",
        "settings",
        "status",
        "topics",
        "transfer",
    },
    "cli": {
        "agents",
        "batched",
        "classes",
        "experiments",
        "files",
        "gateway",
        "hints",
        "inference",
        "kafka",
        "label_studio",
        "local",
        "progress",
        "project",
        "records",
        "security",
        "setting_values",
        "settings",
        "spec",
        "simulation",
        "status",
        "topics",
        "transfer",
    },
}


def layer(path: Path) -> str:
    return path.relative_to(ROOT).parts[0].removesuffix(".py")


def imported_layers(source: str) -> set[str]:
    modules = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            modules += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute"
            modules += [f"{node.module}.{alias.name}" for alias in node.names]
    return {parts[1] for m in modules if (parts := m.split("."))[0] == "pipeline" and parts[1:]}


FILES = sorted(p for p in ROOT.rglob("*.py") if layer(p) not in ("__init__", "__main__"))


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(ROOT)))
def test_inner_packages_never_import_outer_ones(path: Path) -> None:
    here = layer(path)
    outer = imported_layers(path.read_text()) - MAY_IMPORT[here] - {here, "foreign", "__version__"}
    assert not outer, f"{here} must not import {sorted(outer)}"


def test_the_check_sees_an_import_of_an_outer_package() -> None:
    assert imported_layers("from pipeline.cli import main\nimport pipeline.kafka.x") == {
        "cli",
        "kafka",
    }


def test_the_layers_have_no_cycle() -> None:
    done: set[str] = set()
    while done != set(MAY_IMPORT):
        ready = {name for name, needs in MAY_IMPORT.items() if needs <= done} - done
        assert ready, f"a cycle among {sorted(set(MAY_IMPORT) - done)}"
        done |= ready
