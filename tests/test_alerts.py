"""The alerts fire when they should and are silent when not, and each says what to do."""

import re
import shutil
import subprocess
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest
import yaml

from sbic.commands.main import COMMANDS
from sbic.project.settings import SPECS, variable

ROOT = Path(__file__).parent.parent
RULES = yaml.safe_load((ROOT / "deploy/prometheus/rules.yml").read_text())
TESTS = yaml.safe_load((ROOT / "deploy/prometheus/rules.test.yml").read_text())
RUNBOOKS = (ROOT / "docs/runbooks.md").read_text()
ALERTS: dict[str, dict[str, Any]] = {
    rule["alert"]: rule for group in RULES["groups"] for rule in group["rules"] if "alert" in rule
}
PROMTOOL = shutil.which("promtool")


@pytest.mark.parametrize("name", ALERTS)
def test_an_alert_names_its_runbook_and_how_urgent_it_is(name: str) -> None:
    assert ALERTS[name]["annotations"]["runbook"] == f"docs/runbooks.md#{name.lower()}"
    assert f"\n## {name}\n" in RUNBOOKS
    assert ALERTS[name]["labels"]["severity"] in ("page", "ticket")
    assert ALERTS[name]["annotations"]["summary"]


def test_no_runbook_is_of_an_alert_that_does_not_exist() -> None:
    assert set(re.findall(r"^## (.+)$", RUNBOOKS, re.MULTILINE)) == set(ALERTS)


def test_a_runbook_names_commands_and_settings_that_exist() -> None:
    assert set(re.findall(r"\bsbic ([a-z][a-z-]*)", RUNBOOKS)) <= set(COMMANDS)
    assert set(re.findall(r"\bSBIC_[A-Z_]+", RUNBOOKS)) <= set(map(variable, SPECS))


def test_every_alert_is_tested_firing_and_silent() -> None:
    tested: defaultdict[str, set[bool]] = defaultdict(set)
    for case in TESTS["tests"]:
        for expectation in case["alert_rule_test"]:
            tested[expectation["alertname"]].add(bool(expectation["exp_alerts"]))
    assert tested == {name: {True, False} for name in ALERTS}


@pytest.mark.skipif(PROMTOOL is None, reason="promtool is not installed")
def test_the_alerts_fire_when_they_should() -> None:
    assert PROMTOOL is not None
    tests = ROOT / "deploy/prometheus/rules.test.yml"
    found = subprocess.run([PROMTOOL, "test", "rules", tests], capture_output=True, text=True)
    assert found.returncode == 0, found.stdout + found.stderr
