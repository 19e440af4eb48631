"""The packages form a one-way graph, and no class name stands for two things."""

import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parent.parent
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
