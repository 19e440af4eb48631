"""One Kafka with TLS, passwords and ACLs for all tests here; each test has a new project."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import trustme

from sbic.kafka.rights import ROLES
from sbic.local.broker import EmbeddedBroker
from sbic.local.java import HOST, free_port
from sbic.local.secure import PROTOCOL, SecureFolder
from tests.secure.cluster import Crew, SecureCluster

SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"
PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
OAUTH = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
SESSION_MS = 5000  # of connections that come with SCRAM-SHA-256


@pytest.fixture(scope="session")
def authority() -> trustme.CA:
    """The authority of the certificates that the certificate port accepts."""
    return trustme.CA()


@pytest.fixture(scope="package")
def cluster(
    tmp_path_factory: pytest.TempPathFactory, authority: trustme.CA
) -> Iterator[SecureCluster]:
    """A broker as of `sbic broker --secure`, with more mechanisms and a port for certificates."""
    folder = SecureFolder(Path(tmp_path_factory.mktemp("secure")), ROLES)
    trusted = tmp_path_factory.mktemp("authority") / "ca.pem"
    authority.cert_pem.write_to_path(trusted)
    port, controller, certificates = free_port(), free_port(), free_port()
    listener = f"listener.name.{PROTOCOL.lower()}"
    properties = {
        "listeners": f"{PROTOCOL}://{HOST}:{port},CONTROLLER://{HOST}:{controller},"
        f"CERTIFICATES://{HOST}:{certificates}",
        "controller.quorum.voters": f"1@{HOST}:{controller}",
        "listener.security.protocol.map": f"{PROTOCOL}:{PROTOCOL},CONTROLLER:SSL,CERTIFICATES:SSL",
        "listener.name.certificates.ssl.client.auth": "required",
        "listener.name.certificates.ssl.truststore.type": "PEM",
        "listener.name.certificates.ssl.truststore.location": str(trusted),
        "sasl.enabled.mechanisms": "SCRAM-SHA-512,SCRAM-SHA-256,PLAIN,OAUTHBEARER",
        f"{listener}.scram-sha-256.sasl.jaas.config": f"{SCRAM} required;",
        f"{listener}.plain.sasl.jaas.config": f'{PLAIN} required user_reader="plainly";',
        f"{listener}.oauthbearer.sasl.jaas.config": f"{OAUTH} required;",
        f"{listener}.scram-sha-256.connections.max.reauth.ms": str(SESSION_MS),
    }
    with EmbeddedBroker(port, secure=folder, properties=properties) as broker:
        yield SecureCluster(broker, folder, f"kafka://{HOST}:{certificates}")


@pytest.fixture
def crew(cluster: SecureCluster) -> Crew:
    """Users for all roles of a new project, which is not created yet."""
    return Crew(cluster)
