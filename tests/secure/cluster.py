"""A secure Kafka as tests see it: users, rights that come and go, and commands of these users."""

import csv
import gc
import os
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from io import StringIO
from uuid import uuid4

from click.testing import CliRunner, Result
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._acl import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
)
from confluent_kafka.admin._resource import ResourcePatternType, ResourceType
from confluent_kafka.admin._scram import (
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from sbic.commands.main import sbic
from sbic.kafka.rights import ROLES, Right
from sbic.local.broker import EmbeddedBroker
from sbic.local.secure import ADMIN, SecureFolder
from sbic.project.settings import Settings


class SecureCluster:
    """The broker, its folder, and an admin on it."""

    def __init__(self, broker: EmbeddedBroker, folder: SecureFolder, certificates: str) -> None:
        self.broker = broker
        self.folder = folder
        self.certificates = certificates
        self.admin = AdminClient(
            {
                "bootstrap.servers": broker.address,
                "security.protocol": "SASL_SSL",
                "sasl.mechanism": "SCRAM-SHA-512",
                "sasl.username": ADMIN,
                "sasl.password": folder.password(ADMIN),
                "ssl.ca.location": str(folder.cafile),
                "log_level": 0,
            }
        )

    def environment(self, user: str, **changes: str) -> dict[str, str]:
        """The variables of a user; an empty one takes a variable away."""
        variables = self.folder.environment(user, self.broker.url) | changes
        return {name: value for name, value in variables.items() if value}

    def settings(self, user: str, **changes: str) -> Settings:
        return Settings.from_env(self.environment(user, **changes))

    def set_password(self, user: str, password: str, mechanism: ScramMechanism) -> None:
        """Let Kafka know a user by this password; it returns when the broker does."""
        credential = ScramCredentialInfo(mechanism, 4096)
        change = UserScramCredentialUpsertion(user, credential, password.encode())
        for future in self.admin.alter_user_scram_credentials([change]).values():
            future.result()

    def grant(self, *bindings: AclBinding) -> None:
        for future in self.admin.create_acls(list(bindings)).values():
            future.result()
        self._wait_until(bindings, there=True)

    def revoke(self, *bindings: AclBinding) -> None:
        for future in self.admin.delete_acls([_filter(each) for each in bindings]).values():
            future.result()
        self._wait_until(bindings, there=False)

    def acls_of(self, user: str, prefix: str) -> list[str]:
        """What a user may do with the topics and the group of a project."""
        every = AclBindingFilter(
            ResourceType.ANY,
            None,  # type: ignore[arg-type]
            ResourcePatternType.ANY,
            f"User:{user}",
            None,  # type: ignore[arg-type]
            AclOperation.ANY,
            AclPermissionType.ANY,
        )
        found = self.admin.describe_acls(every).result()
        return sorted(repr(acl) for acl in found if acl.name.partition(".")[0] == prefix)

    def _wait_until(self, bindings: tuple[AclBinding, ...], there: bool) -> None:
        """A broker knows of a change a little later than the controller that has made it."""
        for binding in bindings:
            wait_for(lambda b=binding: bool(self.admin.describe_acls(_filter(b)).result()) is there)  # type: ignore[misc]


SHA_256, SHA_512 = ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512


def _filter(binding: AclBinding) -> AclBindingFilter:
    return AclBindingFilter(
        binding.restype,
        binding.name,
        binding.resource_pattern_type,
        binding.principal,
        binding.host,
        binding.operation,
        binding.permission_type,
    )


def binding(right: Right, user: str, prefix: str) -> AclBinding:
    """A right of a user, as Kafka has it."""
    return AclBinding(
        ResourceType.TOPIC if right.resource == "topic" else ResourceType.GROUP,
        right.target(prefix),
        ResourcePatternType.PREFIXED if right.is_prefixed else ResourcePatternType.LITERAL,
        f"User:{user}",
        "*",
        AclOperation[right.operation.name],
        AclPermissionType.ALLOW,
    )


class Crew:
    """Users with the roles of one project; `changes` are to the variables of all of them."""

    def __init__(self, cluster: SecureCluster, **changes: str) -> None:
        self.cluster = cluster
        self.changes = changes
        self.prefix = f"secure-{uuid4().hex[:8]}"

    def grant(self, *roles: str) -> None:
        """Grant roles, each to the user of its name."""
        rights = [(right, role) for role in roles for right in ROLES[role]]
        self.cluster.grant(*(binding(right, role, self.prefix) for right, role in rights))

    @contextmanager
    def without(self, role: str, right: Right) -> Iterator[None]:
        """Take a right away for a while."""
        lost = binding(right, role, self.prefix)
        self.cluster.revoke(lost)
        yield
        self.cluster.grant(lost)

    def environment(self, role: str, **changes: str) -> dict[str, str]:
        project = {"SBIC_PREFIX": self.prefix, "SBIC_PARTITIONS": "2"}
        variables = project | self.changes | changes
        return self.cluster.environment(role, **variables)

    def settings(self, role: str) -> Settings:
        return Settings.from_env(self.environment(role))

    def run(self, role: str, *arguments: str) -> Result:
        """Run `sbic` as this user, in this process."""
        return run_sbic(self.environment(role), *arguments)

    def labels_by_task(self) -> dict[str, int]:
        """How many labels each task has, as the reader sees it."""
        done = self.run("reader", "export", "posteriors")
        assert done.exit_code == 0, done.output
        return {row["task"]: int(row["labels"]) for row in csv.DictReader(StringIO(done.stdout))}


def run_sbic(environment: Mapping[str, str], *arguments: str) -> Result:
    """Run `sbic` in this process, with these settings and no others."""
    others = {name: None for name in os.environ if name.startswith("SBIC_")}
    with warnings.catch_warnings():
        # aiokafka 0.14 closes a connection that is refused, and does not wait until it is closed
        warnings.simplefilter("ignore", ResourceWarning)
        done = CliRunner().invoke(sbic, arguments, env={**others, **environment})
        gc.collect()
    return done


def wait_for(condition: Callable[[], object], seconds: float = 30) -> None:
    """Wait until something is so."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)
