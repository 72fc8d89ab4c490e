"""A PostgreSQL server that runs as long as a demo, if PostgreSQL is installed."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, TypedDict

from headrace.net.free_ports import free_port

_START_S: Final = 60.0
_STOP_S: Final = 30.0


class NoPostgres(Exception):
    """PostgreSQL cannot run here. The message says why."""


class _User(TypedDict, total=False):
    user: int
    group: int
    cwd: Path


def _programs() -> tuple[str, str]:
    binaries = next(iter(sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)), Path())
    initdb, postgres = (shutil.which(name) or str(binaries / name) for name in ("initdb", "postgres"))
    if not (Path(initdb).exists() and Path(postgres).exists()):
        raise NoPostgres("PostgreSQL is not installed (programs initdb and postgres)")
    return initdb, postgres


def _user(folder: Path) -> _User:
    """PostgreSQL refuses to run as root."""
    if os.geteuid() != 0:
        return {}
    try:
        user = pwd.getpwnam("postgres")
    except KeyError:
        raise NoPostgres("PostgreSQL does not run as root, and there is no user postgres") from None
    os.chown(folder, user.pw_uid, user.pw_gid)
    return {"user": user.pw_uid, "group": user.pw_gid, "cwd": folder}


@contextmanager
def running_postgres() -> Iterator[str]:
    """Yields the URL of a server with logical decoding. Its files are temporary, so it does not wait for the
    disk. Raises NoPostgres."""
    initdb, postgres = _programs()
    with tempfile.TemporaryDirectory(prefix="headrace-postgres-") as name:
        folder = Path(name)
        user = _user(folder)
        data, log = folder / "data", folder / "log"
        port = free_port()
        command = [initdb, "-D", str(data), "-U", "postgres", "-A", "trust", "-N"]
        made = subprocess.run(command, capture_output=True, text=True, check=False, **user)
        if made.returncode != 0:
            raise NoPostgres(f"PostgreSQL's initdb failed: {made.stderr.strip()[-200:]}")
        options = (
            "wal_level=logical",
            f"port={port}",
            "listen_addresses=127.0.0.1",
            "fsync=off",
            f"unix_socket_directories={folder}",
        )
        command = [postgres, "-D", str(data), *(part for option in options for part in ("-c", option))]
        with log.open("wb") as out:
            process = subprocess.Popen(command, stdout=out, stderr=out, start_new_session=True, **user)
        url = f"postgresql://postgres@127.0.0.1:{port}/postgres"
        try:
            _wait(url, process, log)
            yield url
        finally:
            process.terminate()
            try:
                process.wait(_STOP_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _wait(url: str, process: subprocess.Popen[bytes], log: Path) -> None:
    import psycopg

    deadline = time.monotonic() + _START_S
    while True:
        try:
            psycopg.connect(url).close()
            return
        except psycopg.OperationalError:
            if process.poll() is not None or time.monotonic() > deadline:
                raise NoPostgres(f"PostgreSQL does not start: {log.read_text(errors='replace')[-300:]}") from None
            time.sleep(0.05)
