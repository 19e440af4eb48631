"""The packages form a one-way graph: inner code never imports outer code, not even indirectly."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
# in a process of its own: it sets up logging, and other tests read logs
LINT = "import sys; from importlinter import cli; sys.exit(cli.lint_imports(no_cache=True))"


def test_inner_code_never_imports_outer_code() -> None:
    run = subprocess.run([sys.executable, "-c", LINT], cwd=ROOT, capture_output=True, text=True)
    assert run.returncode == 0, run.stdout + run.stderr
