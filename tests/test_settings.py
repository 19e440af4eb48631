"""Every setting is a variable and a flag, and a bad one is refused before anything runs."""

import subprocess
import sys

import click
import pytest
from click.testing import CliRunner

from sbic.commands.options import settings_options
from sbic.local.processes import environment
from sbic.project.revision import Given
from sbic.project.settings import SPECS, BadSetting, Settings, variable

ALL = list(SPECS)
SETTLED = {
    "classes": "cat, dog,bird",
    "algorithm": "settled",
    "class_prior": "0.2,0.3,0.5",
    "settle_tolerance": "1e-06",
}
RATINGS = {"scale": "1..5", "ordered": "true", "stop_width": "1"}
FAST = {
    "broker": "kafka://one:1,two:2",
    "prefix": "birds-2.a_b",
    "partitions": "32",
    "replication": "3",
    "labels_retention_hours": "24",
    "retention_hours": "-1",
    "alpha": "4",
    "beta": "0.5",
    "prior": "0.3",
    "classes": "1,-1",
    "algorithm": "fast-sbic",
    "repeats": "last",
    "policy": "uniform",
    "seed": "7",
    "lease_seconds": "2.5",
    "assign_on_label": "true",
    "flat": "true",
    "gold_rate": "0.1",
    "stop_confidence": "0.99",
    "stop_error": "0.05",
    "stop_labels": "10",
    "budget": "5000",
    "budget_cost": "12.5",
    "tier_labels": "3",
    "block_below": "0.4",
    "block_after": "20",
    "web_host": "0.0.0.0",
    "web_port": "0",
    "instance_id": "sbic-0",
    "session_seconds": "45",
    "stuck_seconds": "30",
    "otel": "true",
    "log_level": "warning",
    "log_format": "json",
}
BAD = [
    ("broker", "http://one:1"),
    ("broker", "one:99999"),
    ("broker", "one,,two"),
    ("broker", "one two"),
    ("prefix", "a b"),
    ("prefix", ".hidden"),
    ("prefix", "x" * 201),
    ("partitions", "0"),
    ("partitions", "eight"),
    ("partitions", "1.5"),
    ("replication", "0"),
    ("labels_retention_hours", "0"),
    ("retention_hours", "-2"),
    ("alpha", "0"),
    ("alpha", "nan"),
    ("beta", "inf"),
    ("prior", "1"),
    ("prior", "0"),
    ("classes", "cat"),
    ("classes", "cat,dog,cat"),
    ("classes", "cat,,dog"),
    ("scale", "0..4"),
    ("scale", "1..2"),
    ("scale", "5"),
    ("ordered", "maybe"),
    ("stop_width", "-1"),
    ("algorithm", "em"),
    ("class_prior", "flat"),
    ("class_prior", "0.5,half"),
    ("class_prior", "0.5,0.4"),
    ("class_prior", "0,1"),
    ("class_prior", "0.5,nan"),
    ("class_prior", "0.5,,0.5"),
    ("settle_tolerance", "0"),
    ("settle_tolerance", "1e-13"),
    ("settle_tolerance", "0.2"),
    ("settle_tolerance", "nan"),
    ("repeats", "all"),
    ("policy", "random"),
    ("seed", "-1"),
    ("seed", str(1 << 64)),
    ("retention_hours", "9" * 30),
    ("labels_retention_hours", str(10**13)),
    ("lease_seconds", "0"),
    ("lease_seconds", "1e300"),
    ("lease_seconds", "inf"),
    ("assign_on_label", "maybe"),
    ("flat", "yes"),
    ("gold_rate", "1.1"),
    ("stop_confidence", "1"),
    ("stop_confidence", "0.5"),
    ("stop_confidence", "nan"),
    ("stop_error", "0"),
    ("stop_error", "0.5"),
    ("stop_labels", "0"),
    ("budget", "many"),
    ("budget", str(1 << 64)),
    ("budget_cost", "0"),
    ("budget_cost", "-1"),
    ("budget_cost", "nan"),
    ("budget_cost", "inf"),
    ("tier_labels", "0"),
    ("tier_labels", "1.5"),
    ("block_below", "0"),
    ("block_after", "-1"),
    ("web_host", "http://here"),
    ("web_port", "65536"),
    ("web_port", "-1"),
    ("instance_id", "a b"),
    ("session_seconds", "5"),
    ("stuck_seconds", "1"),
    ("otel", "maybe"),
    ("log_level", "loud"),
    ("log_format", "xml"),
]


@click.command()
@settings_options(*ALL)
def show(settings: Settings) -> None:
    click.echo(repr(settings))


def test_escalation_needs_a_confidence_with_which_it_ends() -> None:
    with pytest.raises(BadSetting, match="SBIC_STOP_CONFIDENCE must be set with SBIC_POLICY"):
        Settings(policy="escalate")
    assert Settings(policy="escalate", stop_confidence=0.9).policy == "escalate"
    assert Settings(policy="escalate", stop_error=0.1).policy == "escalate"


def test_there_is_a_good_value_for_each() -> None:
    assert set(FAST) | set(SETTLED) | set(RATINGS) == set(ALL)


@pytest.mark.parametrize("good", [FAST, SETTLED, RATINGS])
def test_variables_flags_and_the_command_agree(good: dict[str, str]) -> None:
    environment = {variable(name): text for name, text in good.items()}
    expected = Settings.from_env(environment)
    assert expected != Settings.from_env({})
    flags = [part for name, text in good.items() for part in ("--" + name.replace("_", "-"), text)]
    assert CliRunner().invoke(show, flags).output.strip() == repr(expected)
    assert CliRunner().invoke(show, env=environment).output.strip() == repr(expected)


def test_a_flag_wins_over_its_variable_and_an_empty_variable_is_none() -> None:
    environment = {"SBIC_PARTITIONS": "4", "SBIC_PREFIX": ""}
    output = CliRunner().invoke(show, ["--partitions", "5"], env=environment).output.strip()
    assert output == repr(Settings(partitions=5))
    assert Settings.from_env({"SBIC_PREFIX": ""}) == Settings()


@pytest.mark.parametrize(("name", "text"), BAD)
def test_a_bad_variable_is_named(name: str, text: str) -> None:
    with pytest.raises(BadSetting, match=variable(name)) as bad:
        Settings.from_env({variable(name): text})
    assert repr(text) in str(bad.value)
    result = CliRunner().invoke(show, env={variable(name): text})
    assert result.exit_code == 2
    assert variable(name) in result.output


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        (
            {"classes": "cat,dog", "algorithm": "fast-sbic"},
            "SBIC_ALGORITHM must be settled, not 'fast-sbic': "
            "fast-sbic is for -1 and 1, and the classes are 'cat', 'dog'",
        ),
        (
            {"classes": "cat,dog,bird", "class_prior": "0.5,0.5"},
            "SBIC_CLASS_PRIOR must be 3 numbers, one for each of 'cat', 'dog', 'bird', "
            "not '0.5,0.5'",
        ),
        (
            {"class_prior": "uniform"},
            "SBIC_CLASS_PRIOR must be left out, not 'uniform': fast-sbic takes SBIC_PRIOR instead",
        ),
        (
            {"algorithm": "settled", "prior": "0.3"},
            "SBIC_PRIOR must be left out, not 0.3: settled takes SBIC_CLASS_PRIOR instead",
        ),
    ],
)
def test_settings_that_do_not_go_together_are_refused(given: dict[str, str], problem: str) -> None:
    env = {variable(name): text for name, text in given.items()}
    with pytest.raises(BadSetting) as bad:
        Settings.from_env(env)
    assert str(bad.value) == problem
    result = CliRunner().invoke(show, env=env)
    assert result.exit_code == 2
    assert problem in result.output


@pytest.mark.parametrize(
    ("name", "text", "why"),
    [
        ("classes", "cat,dog,cat", "the class 'cat' is given twice"),
        ("class_prior", "0.5,0.4", "the numbers add up to 0.9"),
    ],
)
def test_what_is_wrong_with_classes_is_said(name: str, text: str, why: str) -> None:
    with pytest.raises(BadSetting, match=why):
        Settings(**{name: text})  # type: ignore[arg-type]
    assert why in CliRunner().invoke(show, env={variable(name): text}).output


@pytest.mark.parametrize(
    ("given", "names", "algorithm", "prior"),
    [
        ({}, ("-1", "1"), "fast-sbic", "learned"),
        ({"algorithm": "settled"}, ("-1", "1"), "settled", "learned"),
        ({"classes": "cat, dog"}, ("cat", "dog"), "settled", "learned"),
        ({"classes": "cat,dog", "class_prior": "uniform"}, ("cat", "dog"), "settled", "uniform"),
        ({"algorithm": "settled", "class_prior": "0.3, 0.7"}, ("-1", "1"), "settled", (0.3, 0.7)),
    ],
)
def test_classes_algorithm_and_prior_are_chosen_together(
    given: dict[str, str], names: tuple[str, ...], algorithm: str, prior: object
) -> None:
    settings = Settings(**given)  # type: ignore[arg-type]
    assert settings.crowd_classes.names == names
    assert (settings.chosen_algorithm, settings.chosen_class_prior) == (algorithm, prior)


def test_what_an_instance_is_given_is_what_was_set() -> None:
    for texts in ({}, FAST, SETTLED):
        given = Settings.from_env({variable(name): text for name, text in texts.items()})
        assert Settings.from_env(environment(Given.of(given))) == given


@pytest.mark.parametrize(
    ("broker", "servers"),
    [
        ("kafka://localhost", ["localhost:9092"]),
        ("kafka://one:1,kafka://two:2", ["one:1", "two:2"]),
        ("one:1, two", ["one:1", "two:9092"]),
        ("kafka://[::1]:19092", ["[::1]:19092"]),
    ],
)
def test_a_broker_is_an_address_or_several(broker: str, servers: list[str]) -> None:
    assert Settings(broker=broker).bootstrap_servers == servers


def test_the_settings_and_the_table_of_algorithms_load_without_numpy() -> None:
    code = "import sys, sbic.project.settings; print({'numpy', 'numba'} & set(sys.modules))"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout == "set()\n"
