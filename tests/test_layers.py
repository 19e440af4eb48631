"""The packages form a one-way graph: inner code never imports outer code, not even indirectly."""

from pathlib import Path

import pytest
from importlinter import cli

ROOT = Path(__file__).parent.parent


def test_inner_code_never_imports_outer_code(capsys: pytest.CaptureFixture[str]) -> None:
    status = cli.lint_imports(str(ROOT / "pyproject.toml"), no_cache=True)
    assert status == cli.EXIT_STATUS_SUCCESS, capsys.readouterr().out
