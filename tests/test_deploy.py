"""What deploys the pipeline starts commands that exist, with settings that exist."""

import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections import defaultdict
from importlib.metadata import requires
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import click
import pytest
import yaml
from jsonschema.validators import validator_for
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from sbic.commands.main import COMMANDS, sbic
from sbic.local.broker import EmbeddedBroker, server_properties
from sbic.local.java import KAFKA_VERSION, free_port
from sbic.project.settings import SPECS, Settings, read_setting, variable
from tests.instances import instance

ROOT = Path(__file__).parent.parent
COMPOSE = yaml.safe_load((ROOT / "docker-compose.yml").read_text())
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
OURS = {name: service for name, service in SERVICES.items() if service["image"] == "sbic"}
PROMETHEUS = yaml.safe_load((ROOT / "deploy/prometheus.yml").read_text())
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
VARIABLES = {variable(name): name for name in SPECS}


def instructions() -> list[tuple[str, str]]:
    """The Dockerfile's instructions and what follows them, in order."""
    text = (ROOT / "deploy/Dockerfile").read_text().replace("\\\n", " ")
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    return [(word, rest) for word, _, rest in (line.partition(" ") for line in lines)]


DOCKERFILE = instructions()


def instruction(word: str) -> str:
    """The last one of its kind: that of the image itself, not of what builds it."""
    return [rest for name, rest in DOCKERFILE if name == word][-1]


def interpolated(value: object) -> str:
    """A value as compose reads it where the environment sets nothing."""
    return re.sub(r"\$\{\w+:-(.*?)\}", r"\1", str(value))


def locked(path: str) -> dict[str, set[str]]:
    """Each `name==version` of a lock file with its hashes."""
    found: dict[str, set[str]] = {}
    for line in (ROOT / path).read_text().splitlines():
        if pin := re.match(r"([\w.-]+==[^\s;]+)", line):
            hashes = found.setdefault(pin[1], set())
        elif digest := re.match(r"    --hash=(\S+)", line):
            hashes.add(digest[1])
    return found


def names_of(pins: dict[str, set[str]]) -> set[str]:
    return {canonicalize_name(pin.partition("==")[0]) for pin in pins}


def needed(requirements: list[str]) -> set[str]:
    """The packages of these requirements and of all that they require, on this machine."""
    names: set[str] = set()
    todo = list(map(Requirement, requirements))
    while todo:
        requirement = todo.pop()
        extras = ["", *requirement.extras]
        name = canonicalize_name(requirement.name)
        if name in names or not (
            requirement.marker is None
            or any(requirement.marker.evaluate({"extra": extra}) for extra in extras)
        ):
            continue
        names.add(name)
        todo += map(Requirement, requires(name) or [])
    return names


class TestCompose:
    def test_it_is_what_the_compose_specification_says(self) -> None:
        package = find_spec("check_jsonschema")
        if package is None or package.origin is None:
            pytest.skip("check-jsonschema, which brings the specification, is not installed")
        vendored = Path(package.origin).parent / "builtin_schemas/vendor/compose-spec.json"
        schema = json.loads(vendored.read_text())
        validator_for(schema)(schema).validate(COMPOSE)

    @pytest.mark.parametrize("name", OURS)
    def test_a_service_is_a_command_of_ours_with_settings_that_it_takes(
        self, name: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        subcommand, *arguments = SERVICES[name]["command"]
        assert subcommand in COMMANDS
        for variable_name, value in SERVICES[name]["environment"].items():
            read_setting(VARIABLES[variable_name], interpolated(value))
            monkeypatch.setenv(variable_name, interpolated(value))
        command = sbic.get_command(click.Context(sbic), subcommand)
        assert command
        command.make_context(subcommand, arguments)
        taken = {option.envvar for option in command.params}
        assert set(SERVICES[name]["environment"]) <= taken

    def test_what_can_be_set_from_outside_is_by_default_what_it_is_everywhere(self) -> None:
        for service in OURS.values():
            for name, value in service["environment"].items():
                if "$" in str(value):
                    default = getattr(Settings(), VARIABLES[name])
                    assert value == f"${{{name}:-{default}}}"

    def test_topics_are_made_once_kafka_is_healthy_and_before_two_instances_start(self) -> None:
        assert SERVICES["topics"]["command"] == ["topics"]
        assert SERVICES["topics"]["depends_on"] == {"kafka": {"condition": "service_healthy"}}
        assert SERVICES["kafka"]["healthcheck"]["test"][0] == "CMD"
        assert SERVICES["instance"]["command"] == ["run"]
        assert SERVICES["instance"]["deploy"]["replicas"] == 2
        assert SERVICES["instance"]["depends_on"] == {
            "topics": {"condition": "service_completed_successfully"}
        }
        assert SERVICES["instance"]["restart"] == "unless-stopped"

    def test_every_service_finds_kafka_where_it_says_it_is(self) -> None:
        kafka = SERVICES["kafka"]["environment"]
        advertised = kafka["KAFKA_ADVERTISED_LISTENERS"].split(",")
        addresses = dict(listener.split("://") for listener in advertised)
        for service in OURS.values():
            assert Settings(broker=service["environment"]["SBIC_BROKER"]).bootstrap_servers == [
                addresses["PLAINTEXT"]
            ]
        assert addresses["HOST"] in SERVICES["kafka"]["healthcheck"]["test"]
        assert SERVICES["kafka"]["ports"] == ["127.0.0.1:9092:9092"]

    def test_its_kafka_is_the_one_that_the_tests_run(self) -> None:
        kafka = SERVICES["kafka"]
        assert kafka["image"] == f"apache/kafka:{KAFKA_VERSION}"
        lines = server_properties(9092, 9093, Path("/data")).splitlines()
        tested = dict(line.split("=", 1) for line in lines)
        given = {
            name.removeprefix("KAFKA_").lower().replace("_", "."): str(value)
            for name, value in kafka["environment"].items()
        }
        both = tested.keys() & given.keys() - {
            "listeners",
            "log.dirs",
            "controller.quorum.voters",
        }
        assert len(both) > 8
        assert {name: given[name] for name in both} == {name: tested[name] for name in both}

    def test_files_and_volumes_that_it_names_are_there(self) -> None:
        for service in SERVICES.values():
            if "build" in service:
                build = service["build"]
                assert (ROOT / build["context"] / build["dockerfile"]).is_file()
            for volume in service.get("volumes", []):
                source = volume.split(":")[0]
                there = (ROOT / source).is_file() if "/" in source else source in COMPOSE["volumes"]
                assert there, volume

    def test_nothing_listens_beyond_this_machine(self) -> None:
        for service in SERVICES.values():
            for port in service.get("ports", []):
                assert port.startswith("127.0.0.1:")


class TestImage:
    def test_it_runs_our_command_and_an_instance_unless_told_otherwise(self) -> None:
        (entry,) = json.loads(instruction("ENTRYPOINT"))
        assert entry in PROJECT["scripts"]
        assert json.loads(instruction("CMD")) == ["run"]

    def test_it_does_not_run_as_root(self) -> None:
        assert instruction("USER") == "10001:10001"  # by number: Kubernetes looks at nothing else

    def test_it_needs_no_shell(self) -> None:
        last = max(place for place, (word, _) in enumerate(DOCKERFILE) if word == "FROM")
        assert "RUN" not in [word for word, _ in DOCKERFILE[last:]]
        for word in ("ENTRYPOINT", "CMD"):
            assert json.loads(instruction(word))
        assert "CMD [" in instruction("HEALTHCHECK")

    def test_what_is_compiled_at_build_fits_the_machine_on_which_it_runs(self) -> None:
        build = [rest for word, rest in DOCKERFILE if word == "RUN"][-1]
        assert build.index("pip install") < build.index("python -m sbic.commands.warm_up")
        given = [rest for word, rest in DOCKERFILE if word == "ENV"]
        assert [rest for rest in given if "NUMBA_CPU_NAME=generic" in rest.split()] == given

    def test_its_settings_exist(self) -> None:
        found = dict(word.split("=", 1) for word in instruction("ENV").split())
        ours = {name: value for name, value in found.items() if name.startswith("SBIC_")}
        assert ours == {"SBIC_WEB_HOST": "0.0.0.0"}
        for name, value in ours.items():
            read_setting(VARIABLES[name], value)
        assert instruction("EXPOSE") == str(Settings().web_port)

    def test_its_python_is_one_that_we_support(self) -> None:
        tags = {rest.split()[0] for word, rest in DOCKERFILE if word == "FROM"}
        (tag,) = tags
        version = re.fullmatch(r"python:(\d+\.\d+)-slim", tag)
        assert version
        assert Requirement(f"python{PROJECT['requires-python']}").specifier.contains(version[1])

    def test_all_that_it_copies_is_there_and_not_ignored(self) -> None:
        sources = {
            source
            for word, rest in DOCKERFILE
            if word == "COPY" and not rest.startswith("--from")
            for source in rest.split()[:-1]
        }
        ignored, *kept = (ROOT / "deploy/Dockerfile.dockerignore").read_text().split()
        assert ignored == "*"
        for source in sources:
            assert (ROOT / source).exists()
            assert f"!{source}" in kept

    def test_it_installs_what_is_locked_with_hashes_and_no_extra(self) -> None:
        installs = [rest for word, rest in DOCKERFILE if word == "RUN" and "pip install" in rest]
        assert "--require-hashes -r deploy/requirements.lock" in installs[0]
        assert "--no-deps --no-build-isolation ." in installs[1]
        image, everything = locked("deploy/requirements.lock"), locked("requirements.lock")
        assert {pin: everything.get(pin) for pin in image} == image, "run make lock"
        dropped = set(" ".join(re.findall(r"pip uninstall --yes ([\w -]+)", installs[1])).split())
        assert dropped >= {"hatchling", "pip"}
        runtime = needed(PROJECT["dependencies"])
        assert runtime <= names_of(image) - dropped, "run make lock"
        for extra in PROJECT["optional-dependencies"].values():
            assert not {Requirement(line).name for line in extra} & names_of(image)

    def test_an_instance_and_the_tools_need_none_of_the_extras(self) -> None:
        extras = [
            Requirement(line).name
            for lines in PROJECT["optional-dependencies"].values()
            for line in lines
        ]
        program = (
            "import sys, pkgutil, importlib\n"
            f"sys.modules.update(dict.fromkeys({extras!r}))\n"  # importing these fails
            "import sbic.runtime, sbic.kafka\n"
            "for package in (sbic.runtime, sbic.kafka):\n"
            "    for module in pkgutil.iter_modules(package.__path__):\n"
            "        importlib.import_module(f'{package.__name__}.{module.name}')\n"
        )
        subprocess.run([sys.executable, "-c", program], check=True)

    def test_it_is_healthy_while_an_instance_answers(self, broker: EmbeddedBroker) -> None:
        _, _, text = instruction("HEALTHCHECK").partition("CMD ")
        python, *arguments = json.loads(text)
        assert python == "python"

        def is_healthy(port: str) -> bool:
            environment = os.environ | {"SBIC_WEB_PORT": port}
            command = [sys.executable, *arguments]
            return not subprocess.run(command, env=environment, capture_output=True).returncode

        with instance(broker.address, "deploy", SBIC_PARTITIONS="1") as running:
            running.wait_ready()
            assert is_healthy(running.url.rpartition(":")[2])
        assert not is_healthy(str(free_port()))


class TestPrometheus:
    def test_it_scrapes_the_web_port_of_every_instance(self) -> None:
        jobs = {job["job_name"]: job for job in PROMETHEUS["scrape_configs"]}
        (lookup,) = jobs["sbic"]["dns_sd_configs"]
        (service,) = lookup["names"]
        assert SERVICES[service]["command"] == ["run"]
        assert lookup["port"] == Settings().web_port
        assert jobs["sbic"].get("metrics_path", "/metrics") == "/metrics"

    def test_prometheus_takes_the_file(self) -> None:
        promtool = shutil.which("promtool")
        if promtool is None:
            pytest.skip("promtool is not installed (Debian: apt install prometheus)")
        checked = subprocess.run(
            [promtool, "check", "config", str(ROOT / "deploy/prometheus.yml")],
            capture_output=True,
            text=True,
        )
        assert checked.returncode == 0, checked.stdout + checked.stderr


def test_the_commands_that_the_readme_names_exist() -> None:
    text = (ROOT / "deploy/README.md").read_text()
    named = set(re.findall(r"\bsbic ([a-z]+)", text)) | set(re.findall(r"-T instance (\w+)", text))
    assert named
    assert named <= set(COMMANDS)


# The alerts fire when they should and are silent when not, and each says what to do.


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
