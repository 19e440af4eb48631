"""A real PostgreSQL for the tests, of an unprivileged user, in a temporary folder."""

import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from glob import glob
from pathlib import Path
from typing import Any, NamedTuple

from sbic.local.java import free_port

PASSWORD = "hunter2-of-the-tests"
PROGRAMS = sorted(glob("/usr/lib/postgresql/*/bin"))


def program(name: str) -> str | None:
    """The path of one of PostgreSQL's programs, which Debian does not put on the path."""
    return shutil.which(name, path=os.pathsep.join([*reversed(PROGRAMS), os.environ["PATH"]]))


IS_INSTALLED = program("initdb") is not None


class Server(NamedTuple):
    """A running server; `url` has no password."""

    url: str
    port: int

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        """What a query returns."""
        import psycopg

        with psycopg.connect(self.url, password=PASSWORD) as connection:
            cursor = connection.execute(sql.encode())
            return cursor.fetchall() if cursor.description else []


@contextmanager
def postgres() -> Iterator[Server]:
    """A server that asks for the password, on a free port of the loopback."""
    initdb, server = program("initdb"), program("postgres")
    assert initdb
    assert server
    # it refuses to run as root, who has other users
    user = "nobody" if os.geteuid() == 0 else None
    with tempfile.TemporaryDirectory(prefix="sbic-postgres-") as name:
        folder, port = Path(name), free_port()
        (folder / "password").write_text(PASSWORD)
        if user:
            for path in (folder, folder / "password"):
                shutil.chown(path, user)
        subprocess.run(
            [
                *(initdb, "--pgdata", f"{folder}/data", "--username", "ann", "--no-sync"),
                *("--auth", "scram-sha-256", "--pwfile", f"{folder}/password"),
                *("--encoding", "UTF8", "--locale", "C"),
            ],
            user=user,
            cwd=folder,
            check=True,
            capture_output=True,
        )
        with open(folder / "log", "wb") as log:
            process = subprocess.Popen(
                [
                    *(server, "-D", f"{folder}/data", "-p", str(port), "-k", str(folder)),
                    *("-h", "127.0.0.1", "-F"),
                ],
                user=user,
                cwd=folder,
                stdout=log,
                stderr=log,
            )
        try:
            yield started(
                Server(f"postgresql://ann@127.0.0.1:{port}/postgres", port), process, log.name
            )
        finally:
            process.terminate()
            process.wait(30)


def started(server: Server, process: "subprocess.Popen[bytes]", log: str) -> Server:
    """The server, once it answers."""
    last = time.monotonic() + 60
    while subprocess.run([str(program("pg_isready")), "-q", "-d", server.url]).returncode:
        assert process.poll() is None, Path(log).read_text()
        assert time.monotonic() < last, Path(log).read_text()
        time.sleep(0.05)
    return server
