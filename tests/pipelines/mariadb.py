"""A real MariaDB with a binary log, for one test."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from headrace.net.free_ports import free_port
from headrace.pipelines.connectors.databases import Database
from headrace.pipelines.errors import PipelineError
from tests.support.clock import wait_for


class MariaDbUnavailable(Exception):
    """The message names the missing program."""


@contextmanager
def running_mariadb(*settings: str) -> Iterator[str]:
    """Yields the url of an empty database."""
    install, server = shutil.which("mariadb-install-db"), shutil.which("mariadbd") or "/usr/sbin/mariadbd"
    if install is None or not Path(server).exists():
        raise MariaDbUnavailable("MariaDB's programs (mariadb-install-db, mariadbd) are not installed")
    quiet: dict[str, Any] = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    with tempfile.TemporaryDirectory(prefix="headrace-mariadb-") as folder:
        owner = [] if os.geteuid() != 0 else _owned(Path(folder))
        data, port = Path(folder) / "data", free_port()
        subprocess.run(
            [install, "--no-defaults", f"--datadir={data}", "--auth-root-authentication-method=normal", *owner],
            check=True,
            **quiet,
        )
        command = [server, "--no-defaults", f"--datadir={data}", f"--port={port}", "--bind-address=127.0.0.1", *owner]
        command += [f"--socket={folder}/socket", f"--pid-file={folder}/pid", "--innodb-flush-log-at-trx-commit=0"]
        command += ["--server-id=1", "--log-bin=bin", *(settings or _SETTINGS)]
        process = subprocess.Popen(command, **quiet)
        try:
            empty = Database(f"mysql://root@127.0.0.1:{port}/mysql")

            def serves() -> bool:
                assert process.poll() is None
                try:
                    with empty.connect() as connection:
                        connection.execute("CREATE DATABASE IF NOT EXISTS shop")
                except PipelineError:
                    return False
                return True

            wait_for(serves, "MariaDB to serve")
            yield f"mysql://root@127.0.0.1:{port}/shop"
        finally:
            process.terminate()
            process.wait(30)


_SETTINGS = ("--binlog-format=ROW", "--binlog-row-metadata=FULL")


def _owned(folder: Path) -> list[str]:
    """MariaDB does not run as root unless it is told so; its user cannot open pytest's directories."""
    user = pwd.getpwnam("mysql")
    os.chown(folder, user.pw_uid, user.pw_gid)
    return ["--user=mysql"]
