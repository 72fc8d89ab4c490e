"""kafka-console-producer and kafka-console-consumer, run as a user runs them."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from headrace.testing import RunningBroker
from tests.cli.conftest import Ran
from tests.support.programs import Programs

Tool = Callable[..., Ran]


@pytest.fixture
def tool(running: RunningBroker, programs: Programs, tmp_path: Path) -> Tool:
    """`tool("console_producer", "--topic", …)` with the address of the running broker."""

    def run(module: str, *words: str, stdin: str = "", bootstrap: str | None = None) -> Ran:
        address = ["--bootstrap-server", bootstrap or running.bootstrap]
        done = programs.run(
            f"headrace.cli.kafka_tools.{module}",
            [*address, *words],
            env=os.environ,
            cwd=tmp_path,
            stdin=stdin.encode(),
            timeout=60,
        )
        return Ran(done.returncode, done.stdout.decode(), done.stderr.decode())

    return run


def test_a_group_that_found_nothing_reads_what_comes_afterwards(tool: Tool, topic: str) -> None:
    """As with Kafka's consumer, the group's position in a partition without records is committed too."""
    read = ("console_consumer", "--topic", topic, "--group", f"late-{topic}", "--timeout-ms", "4000")
    assert tool(*read).out == ""
    tool("console_producer", "--topic", topic, stdin="one\ntwo\nthree\n")
    assert sorted(tool(*read).out.split()) == ["one", "three", "two"]
