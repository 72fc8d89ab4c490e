"""Runs the program as a user does: in its own process, with a real broker and an empty home directory.

Calls of `headrace` fork a process that has loaded the program (tests/support/programs.py). The examples and the
terminal tests start the installed command itself.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from headrace.testing import RunningBroker, broker
from tests.reference.kafka import KEEPS_OLD_RECORDS
from tests.support.names import unique
from tests.support.programs import Programs

PROGRAMS = Path(sys.executable).parent
Run = Callable[..., "Ran"]


@dataclass(frozen=True)
class Ran:
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    @property
    def lines(self) -> list[Any]:
        return [json.loads(line) for line in self.out.splitlines()]


def environment(home: Path, bootstrap: str | None) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("HEADRACE", "XDG"))}
    where = {} if bootstrap is None else {"HEADRACE_BOOTSTRAP": bootstrap}
    return {**kept, "HOME": str(home), "PATH": f"{PROGRAMS}:{os.environ['PATH']}", "TERM": "xterm", **where}


@pytest.fixture(scope="session")
def running() -> Iterator[RunningBroker]:
    with broker(KEEPS_OLD_RECORDS) as started:
        yield started


@pytest.fixture(scope="session")
def programs() -> Iterator[Programs]:
    with Programs() as loaded:
        yield loaded


@pytest.fixture
def headrace(running: RunningBroker, programs: Programs, tmp_path: Path) -> Run:
    def run(*words: str, stdin: str | bytes = "", env: Mapping[str, str] | None = None, timeout: float = 60) -> Ran:
        done = programs.run(
            "headrace.cli:main",
            words,
            stdin=stdin.encode() if isinstance(stdin, str) else stdin,
            env={**environment(tmp_path, running.bootstrap), **(env or {})},
            cwd=tmp_path,
            timeout=timeout,
        )
        return Ran(done.returncode, done.stdout.decode(), done.stderr.decode())

    return run


@pytest.fixture
def topic(running: RunningBroker) -> str:
    """A new topic with three partitions."""
    from confluent_kafka.admin import AdminClient, NewTopic

    name = unique("orders")
    admin = AdminClient({"bootstrap.servers": running.bootstrap})
    admin.create_topics([NewTopic(name, 3, 1)])[name].result(60)
    return name
