"""A real PostgreSQL with logical decoding, for one test."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from headrace.net.free_ports import free_port
from tests.support.clock import wait_for

_START_TIMEOUT_S: Final = 120


class PostgresUnavailable(Exception):
    """The message names the missing program."""


def _programs() -> tuple[str, str]:
    binaries = next(iter(sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)), Path())
    initdb, postgres = (shutil.which(name) or str(binaries / name) for name in ("initdb", "postgres"))
    if not (Path(initdb).exists() and Path(postgres).exists()):
        raise PostgresUnavailable("PostgreSQL's programs (initdb, postgres) are not installed")
    return initdb, postgres


def _owner(folder: Path) -> dict[str, Any]:
    """PostgreSQL refuses to run as root."""
    if os.geteuid() != 0:
        return {}
    try:
        user = pwd.getpwnam("postgres")
    except KeyError:
        raise PostgresUnavailable("PostgreSQL needs a user other than root, and there is no user postgres") from None
    os.chown(folder, user.pw_uid, user.pw_gid)
    return {"user": user.pw_uid, "group": user.pw_gid, "cwd": folder}


@contextmanager
def running_postgres(*settings: str) -> Iterator[str]:
    """Yields the url. `settings` such as "fsync=on" replace those of tests. The server needs its own directory, because
    its user cannot open those of pytest."""
    with tempfile.TemporaryDirectory(prefix="headrace-postgres-") as folder, _running(Path(folder), settings) as url:
        yield url


@contextmanager
def _running(folder: Path, settings: tuple[str, ...]) -> Iterator[str]:
    import psycopg

    initdb, postgres = _programs()
    quiet: dict[str, Any] = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, **_owner(folder)}
    data = folder / "data"
    subprocess.run([initdb, "-D", data, "-U", "postgres", "-A", "trust", "-N"], check=True, **quiet)
    port = free_port()
    command = [postgres, "-D", str(data)]
    for setting in (
        "wal_level=logical",
        # Tests leave their slots.
        "max_replication_slots=300",
        "max_wal_senders=20",
        f"port={port}",
        "listen_addresses=127.0.0.1",
        f"unix_socket_directories={folder}",
        "fsync=off",
        *settings,
    ):
        command += ["-c", setting]
    process = subprocess.Popen(command, **quiet)
    url = f"postgresql://postgres@127.0.0.1:{port}/postgres"
    try:

        def serves() -> bool:
            try:
                psycopg.connect(url).close()
            except psycopg.OperationalError:
                if process.poll() is not None:
                    raise
                return False
            return True

        wait_for(serves, "PostgreSQL to serve")
        yield url
    finally:
        process.terminate()
        process.wait(30)
