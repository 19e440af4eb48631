"""The manifests are what Kubernetes takes, and start commands with settings that exist."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import kubernetes_validate
import pytest
import yaml

from sbic.commands.main import sbic
from sbic.kafka.rights import ROLES
from sbic.project.settings import SPECS, Settings, read_setting, variable
from sbic.project.topics import Topics

ROOT = Path(__file__).parent.parent / "deploy/kubernetes"
FOLDERS = [path.parent for path in sorted(ROOT.rglob("kustomization.yaml"))]
STRIMZI = ROOT / "overlays/strimzi"
VARIABLES = {variable(name): name for name in SPECS}
CONNECTION = {  # see sbic.project.security
    "SBIC_SECURITY_PROTOCOL",
    "SBIC_SASL_MECHANISM",
    "SBIC_SASL_USERNAME",
    "SBIC_SASL_PASSWORD_FILE",
    "SBIC_SSL_CAFILE",
}
Manifest = dict[str, Any]


def manifests(folder: Path) -> Iterator[tuple[str, Manifest]]:
    """What a folder applies, with the name of the file; patches are not among them."""
    for name in kustomization(folder)["resources"]:
        if (folder / name).is_file():
            for manifest in yaml.safe_load_all((folder / name).read_text()):
                yield name, manifest


def kustomization(folder: Path) -> Manifest:
    found: Manifest = yaml.safe_load((folder / "kustomization.yaml").read_text())
    return found


def of_kind(folder: Path, kind: str) -> list[Manifest]:
    return [manifest for _, manifest in manifests(folder) if manifest["kind"] == kind]


def patches() -> list[Manifest]:
    """The patches of the overlay."""
    paths = [patch["path"] for patch in kustomization(STRIMZI)["patches"]]
    return [yaml.safe_load((STRIMZI / path).read_text()) for path in paths]


BASE = {manifest["kind"]: manifest for _, manifest in manifests(ROOT / "base")}
SETTINGS: dict[str, str] = BASE["ConfigMap"]["data"]
PROGRAMS = {
    kind: BASE[kind]["spec"]["template"]["spec"]["containers"][0] for kind in ("StatefulSet", "Job")
}
IN_FORCE = Settings.from_env(SETTINGS)


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_a_folder_uses_all_its_files_and_names_none_that_is_not_there(folder: Path) -> None:
    made = kustomization(folder)
    names = [*made["resources"], *made.get("components", [])]
    names += [patch["path"] for patch in made.get("patches", [])]
    assert all((folder / name).exists() for name in names)
    files = {path.name for path in folder.glob("*.yaml")} - {"kustomization.yaml"}
    assert files <= set(names)


@pytest.mark.parametrize("kind", BASE)
def test_kubernetes_takes_it(kind: str) -> None:
    kubernetes_validate.validate(BASE[kind], "1.31", strict=True)


def test_a_setting_is_one_that_exists_with_a_value_that_it_takes() -> None:
    for name, value in SETTINGS.items():
        read_setting(VARIABLES[name], value)
    for program in PROGRAMS.values():
        assert {one["name"] for one in program.get("env", [])} <= set(VARIABLES)
    (config, *programs) = patches()
    for name, value in config["data"].items():
        if name not in CONNECTION:
            read_setting(VARIABLES[name], value)
    for patch in programs:
        (container,) = patch["spec"]["template"]["spec"]["containers"]
        assert {one["name"] for one in container["env"]} <= CONNECTION


@pytest.mark.parametrize(("kind", "arguments"), [("StatefulSet", ["run"]), ("Job", ["topics"])])
def test_a_container_starts_a_command_that_exists(
    kind: str, arguments: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert PROGRAMS[kind]["args"] == arguments
    for name, value in SETTINGS.items():
        monkeypatch.setenv(name, value)
    command = sbic.get_command(click.Context(sbic), arguments[0])
    assert command
    command.make_context(arguments[0], arguments[1:])


def test_the_name_of_a_pod_is_its_name_in_the_group() -> None:
    (given,) = PROGRAMS["StatefulSet"]["env"]
    assert given["name"] == variable("instance_id")
    assert given["valueFrom"]["fieldRef"]["fieldPath"] == "metadata.name"
    read_setting("instance_id", f"{BASE['StatefulSet']['metadata']['name']}-0")
    assert BASE["StatefulSet"]["spec"]["replicas"] <= IN_FORCE.partitions
    assert BASE["StatefulSet"]["spec"]["serviceName"] == BASE["Service"]["metadata"]["name"]


def test_probes_and_prometheus_ask_the_web_port() -> None:
    program = PROGRAMS["StatefulSet"]
    (port,) = program["ports"]
    assert port == {"name": "metrics", "containerPort": Settings().web_port}
    paths = {name: probe["httpGet"] for name, probe in program.items() if name.endswith("Probe")}
    assert {name: get["path"] for name, get in paths.items()} == {
        "startupProbe": "/healthz",
        "livenessProbe": "/healthz",
        "readinessProbe": "/readyz",
    }
    assert {get["port"] for get in paths.values()} == {"metrics"}
    (served,) = BASE["Service"]["spec"]["ports"]
    (monitor,) = of_kind(ROOT / "components/servicemonitor", "ServiceMonitor")
    (endpoint,) = monitor["spec"]["endpoints"]
    assert endpoint["port"] == served["name"]
    assert endpoint["path"] == "/metrics"
    (given,) = kustomization(ROOT / "base")["labels"]
    assert monitor["spec"]["selector"]["matchLabels"] == given["pairs"]


@pytest.mark.parametrize("kind", PROGRAMS)
def test_a_container_has_no_rights_and_writes_to_nothing_but_tmp(kind: str) -> None:
    pod = BASE[kind]["spec"]["template"]["spec"]
    assert pod["automountServiceAccountToken"] is False
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["runAsUser"] == 10001  # as in the image
    assert PROGRAMS[kind]["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert [mount["mountPath"] for mount in PROGRAMS[kind]["volumeMounts"]] == ["/tmp"]
    assert "memory" in PROGRAMS[kind]["resources"]["limits"]


def test_policies_are_of_the_pods_and_let_them_reach_kafka() -> None:
    pods = BASE["StatefulSet"]["spec"]["template"]["metadata"]["labels"]
    assert BASE["StatefulSet"]["spec"]["selector"]["matchLabels"] == pods
    assert BASE["PodDisruptionBudget"]["spec"]["selector"]["matchLabels"] == pods
    assert BASE["Service"]["spec"]["selector"] == pods
    policy = BASE["NetworkPolicy"]["spec"]
    (selector,) = policy["podSelector"]["matchExpressions"]
    labels = [BASE[kind]["spec"]["template"]["metadata"]["labels"] for kind in PROGRAMS]
    assert {one[selector["key"]] for one in labels} == set(selector["values"])
    out = {port["port"] for rule in policy["egress"] for port in rule["ports"]}
    brokers = SETTINGS["SBIC_BROKER"], patches()[0]["data"]["SBIC_BROKER"]
    for broker in brokers:
        (address,) = Settings(broker=broker).bootstrap_servers
        assert int(address.rpartition(":")[2]) in out


def test_patches_are_of_what_is_there_and_mount_the_secrets_that_settings_name() -> None:
    users = {user["metadata"]["name"] for user in of_kind(STRIMZI, "KafkaUser")}
    config, *programs = patches()
    assert config["metadata"] == BASE["ConfigMap"]["metadata"]
    files = {value for name, value in config["data"].items() if name.endswith("FILE")}
    assert files == {"/etc/sbic/user/password", "/etc/sbic/ca/ca.crt"}
    for patch in programs:
        assert patch["metadata"]["name"] == BASE[patch["kind"]]["metadata"]["name"]
        pod = patch["spec"]["template"]["spec"]
        (container,) = pod["containers"]
        assert container["name"] == PROGRAMS[patch["kind"]]["name"]
        (name,) = container["env"]
        assert name["value"] in users
        assert {mount["mountPath"] for mount in container["volumeMounts"]} == {
            str(Path(file).parent) for file in files
        }
        secrets = {one["name"]: one["secret"]["secretName"] for one in pod["volumes"]}
        assert secrets["user"] == name["value"]
        assert {mount["name"] for mount in container["volumeMounts"]} == set(secrets)


def test_the_topics_of_strimzi_are_ours() -> None:
    found = {topic["metadata"]["name"]: topic["spec"] for topic in of_kind(STRIMZI, "KafkaTopic")}
    assert found == {
        topic.name: {
            "partitions": topic.partitions,
            "replicas": topic.replication,
            "config": {**topic.config, **topic.tuning},
        }
        for topic in Topics(IN_FORCE)
    }


def test_each_role_has_a_user_of_strimzi_with_the_rights_it_needs() -> None:
    users = list(of_kind(STRIMZI, "KafkaUser"))
    roles = [user["metadata"]["annotations"]["sbic/role"] for user in users]
    assert sorted(roles) == sorted(ROLES)
    for role, user in zip(roles, users, strict=True):
        granted = {
            (operation, *acl["resource"].values())
            for acl in user["spec"]["authorization"]["acls"]
            for operation in acl["operations"]
        }
        needed = {
            (
                right.operation.acl_name,
                right.resource,
                right.target(IN_FORCE.prefix),
                "prefix" if right.is_prefixed else "literal",
            )
            for right in ROLES[role]
        }
        assert granted == needed, user["metadata"]["name"]


@pytest.mark.parametrize("kind", ["KafkaTopic", "KafkaUser"])
def test_the_resources_of_strimzi_name_their_cluster(kind: str) -> None:
    for one in of_kind(STRIMZI, kind):
        assert one["apiVersion"] == "kafka.strimzi.io/v1"
        assert one["metadata"]["labels"] == {"strimzi.io/cluster": "kafka"}
        assert set(one["spec"]) == (
            {"partitions", "replicas", "config"}
            if kind == "KafkaTopic"
            else {"authentication", "authorization"}
        )


def test_keda_scales_by_the_lag_of_labels_and_not_beyond_the_partitions() -> None:
    (scaled,) = of_kind(ROOT / "components/keda", "ScaledObject")
    spec = scaled["spec"]
    assert spec["scaleTargetRef"] == {"kind": "StatefulSet", "name": "sbic"}
    assert spec["minReplicaCount"] == BASE["StatefulSet"]["spec"]["replicas"]
    assert spec["maxReplicaCount"] == IN_FORCE.partitions
    (trigger,) = spec["triggers"]
    assert trigger["metadata"]["topic"] == Topics(IN_FORCE).labels.name
    assert trigger["metadata"]["consumerGroup"] == IN_FORCE.prefix
    assert trigger["metadata"]["bootstrapServers"] == IN_FORCE.bootstrap_servers[0]
    down = spec["advanced"]["horizontalPodAutoscalerConfig"]["behavior"]["scaleDown"]
    assert down["stabilizationWindowSeconds"] > 10 * IN_FORCE.session_seconds
    assert down["policies"][0]["value"] == 1
