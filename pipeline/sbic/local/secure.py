"""The files of a broker with TLS, passwords and ACLs: a CA, a certificate, and users.

They are in one folder, which only its owner can read. Java's keytool creates the certificates, so
that nothing else has to be installed. The key of the CA is deleted: it signs nothing else.
"""

import os
import secrets
import subprocess
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from shlex import quote

from sbic.local.java import HOST, BadChoice, BrokerCannotStart, java_tool

ADMIN = "admin"
MECHANISM = "SCRAM-SHA-512"
PROTOCOL = "SASL_SSL"
BROKER_NAME = "CN=sbic-broker"
DAYS = "3650"


class SecureFolder:
    """The folder: created once, and used by every later start.

    `ca.pem` is for clients. Each user has `NAME.password` and `NAME.env`, which a shell can source;
    the admin, a super user, also has `admin.properties` for Kafka's own tools.
    """

    def __init__(self, path: Path, users: Iterable[str]) -> None:
        self.path = path.absolute()
        self.cafile = self.path / "ca.pem"
        self.keystore = self.path / "broker.p12"
        self.users = (ADMIN, *users)

    def make(self) -> None:
        """Create the files that do not exist yet."""
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            self.path.chmod(0o700)
            for user in (*self.users, "keystore"):
                if not self._password_file(user).exists():
                    write_private(self._password_file(user), secrets.token_urlsafe(24))
            if not self.cafile.exists():
                self._make_certificates()
        except OSError as error:
            raise BadChoice(f"cannot use the folder {self.path}: {error.strerror}") from None

    def write_environments(self, url: str) -> None:
        """Write the files with which users connect to the broker at this address."""
        for user in self.users:
            variables = self.environment(user, url).items()
            lines = (f"export {name}={quote(value)}\n" for name, value in variables)
            write_private(self.environment_file(user), "".join(lines))
        write_private(self.admin_properties, _lines(self.client_properties(ADMIN)))

    def environment_file(self, user: str) -> Path:
        """Return the file that this user sources."""
        return self.path / f"{user}.env"

    @property
    def admin_properties(self) -> Path:
        """The file for `--command-config` of Kafka's own tools."""
        return self.path / "admin.properties"

    def environment(self, user: str, url: str) -> dict[str, str]:
        """Return the variables with which a user connects; the password stays in its file."""
        return {
            "SBIC_BROKER": url,
            "SBIC_SECURITY_PROTOCOL": PROTOCOL,
            "SBIC_SASL_MECHANISM": MECHANISM,
            "SBIC_SASL_USERNAME": user,
            "SBIC_SASL_PASSWORD_FILE": str(self._password_file(user)),
            "SBIC_SSL_CAFILE": str(self.cafile),
        }

    def password(self, user: str) -> str:
        """Return the password of a user."""
        return self._password_file(user).read_text()

    def client_properties(self, user: str) -> dict[str, str]:
        """Return the properties with which Kafka's own clients connect."""
        return {
            "security.protocol": PROTOCOL,
            "sasl.mechanism": MECHANISM,
            "sasl.jaas.config": self._login(user),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self.cafile),
        }

    def server_properties(self, port: int, controller_port: int) -> dict[str, str]:
        """Return the broker's listeners and how it authenticates clients.

        The controller does not support SCRAM: only the broker itself can connect to it, by its
        certificate.
        """
        return {
            "listeners": f"{PROTOCOL}://{HOST}:{port},CONTROLLER://{HOST}:{controller_port}",
            "listener.security.protocol.map": f"{PROTOCOL}:{PROTOCOL},CONTROLLER:SSL",
            "inter.broker.listener.name": PROTOCOL,
            "sasl.enabled.mechanisms": MECHANISM,
            "sasl.mechanism.inter.broker.protocol": MECHANISM,
            f"listener.name.{PROTOCOL.lower()}.{MECHANISM.lower()}.sasl.jaas.config": self._login(
                ADMIN
            ),
            "listener.name.controller.ssl.client.auth": "required",
            "ssl.keystore.type": "PKCS12",
            "ssl.keystore.location": str(self.keystore),
            "ssl.keystore.password": self.password("keystore"),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self.cafile),
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": f"User:{ADMIN};User:{BROKER_NAME}",
        }

    def format_options(self) -> list[str]:
        """Return the options that add the users when a data folder is formatted."""
        return [
            option
            for user in self.users
            for option in (
                "--add-scram",
                f"{MECHANISM}=[name={user},password={self.password(user)}]",
            )
        ]

    def _login(self, user: str) -> str:
        module = "org.apache.kafka.common.security.scram.ScramLoginModule"
        return f'{module} required username="{user}" password="{self.password(user)}";'

    def _password_file(self, user: str) -> Path:
        return self.path / f"{user}.password"

    def _make_certificates(self) -> None:
        with tempfile.TemporaryDirectory(dir=self.path) as scratch:
            store = Path(scratch, "store.p12")
            is_ca = ("-ext", "bc:c=ca:true", "-ext", "ku:c=keyCertSign,cRLSign")
            self._keytool(store, "-genkeypair", "ca", "-dname", "CN=sbic CA", *is_ca, *_KEY)
            names = f"san=ip:{HOST},dns:localhost"
            signed = ("-signer", "ca", "-ext", names, *_KEY)
            self._keytool(store, "-genkeypair", "broker", "-dname", BROKER_NAME, *signed)
            exported = Path(scratch, "ca.pem")
            self._keytool(store, "-exportcert", "ca", "-rfc", "-file", str(exported))
            self._keytool(store, "-delete", "ca")
            store.chmod(0o600)
            store.replace(self.keystore)
            exported.replace(self.cafile)  # last: it exists only if everything does

    def _keytool(self, store: Path, command: str, alias: str, *options: str) -> None:
        password = ("-storetype", "PKCS12", "-storepass:file", str(self._password_file("keystore")))
        done = subprocess.run(
            [
                java_tool("keytool"),
                command,
                "-alias",
                alias,
                "-keystore",
                store,
                *password,
                *options,
            ],
            capture_output=True,
            text=True,
        )
        if done.returncode:
            raise BrokerCannotStart(
                "keytool cannot create a certificate", done.stdout + done.stderr
            )


_KEY = ("-keyalg", "EC", "-groupname", "secp256r1", "-validity", DAYS)


def write_private(path: Path, text: str) -> None:
    """Write a file that only its owner can read, from its creation on."""
    descriptor, name = tempfile.mkstemp(dir=path.parent)
    with os.fdopen(descriptor, "w") as unfinished:
        unfinished.write(text)
    Path(name).replace(path)


def _lines(properties: Mapping[str, str]) -> str:
    return "".join(f"{name}={value}\n" for name, value in properties.items())
