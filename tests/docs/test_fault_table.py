"""Every row of the table of faults names a test that exists."""

import re
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
ROW = re.compile(r"^\| .* \| `(tests/\S+\.py)::(\w+)` \|$")


def test_each_row_is_a_test() -> None:
    lines = (ROOT / "docs" / "faults.md").read_text().splitlines()
    rows = [line for line in lines if line.startswith("| ")][1:]
    assert len(rows) > 5
    for row in rows:
        found = ROW.match(row)
        assert found, row
        assert f"def {found[2]}(" in (ROOT / found[1]).read_text(), row
