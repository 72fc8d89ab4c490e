"""Every help example of the commands that use Spark works in a shell, in the order of typical use."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.cli.support.reference import commands, examples
from headrace.client.blocking.client import BlockingClient
from headrace.pipelines.spark.java import JavaMissing, find_java
from headrace.testing import RunningBroker, broker
from tests.support import effort
from tests.support.clock import PATIENCE_S

PROGRAMS = Path(sys.executable).parent
# A session of Spark alone took 68 s at a load of nine.
_LONGEST_S = 3 * PATIENCE_S
EXAMPLES = {
    name: examples(command) for name, command in commands() if name.split()[0] in ("pipeline", "mirror", "demo")
}
# `stop` needs a running pipeline, so a run starts in the background before it.
ORDER = (
    "pipeline init", "pipeline test", "pipeline check", "pipeline run", "pipeline ls", "pipeline status",
    "pipeline replay", "pipeline reset", "pipeline stop", "pipeline rename", "pipeline forget", "pipeline snapshot",
    "pipeline dlq ls", "pipeline dlq show", "pipeline dlq edit", "pipeline dlq drop",
    "pipeline dlq retry", "pipeline jars",
    "mirror run", "mirror offsets", "demo ls", "demo run", "demo wordcount",
)  # fmt: skip
# Each starts its own Spark session; other tests cover the same in one session. Run all with HEADRACE_EFFORT=long.
LONG = {
    "demo wordcount",
    "demo run",
    "pipeline test",
    "pipeline check",
    "pipeline replay",
    "pipeline stop",
    "mirror run",
    "mirror offsets",
}


def test_every_spark_command_has_an_example_here() -> None:
    assert sorted(EXAMPLES) == sorted(ORDER)


@pytest.fixture(scope="module")
def clusters() -> Iterator[tuple[RunningBroker, RunningBroker]]:
    try:
        find_java()
    except JavaMissing as missing:
        pytest.skip(str(missing))
    with broker() as here, broker() as there:
        with BlockingClient(here.bootstrap) as client:
            for topic in ("input", "output", "orders", "orders.dlq"):
                client.create_topic(topic, partitions=1)
        yield here, there


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory, clusters: tuple[RunningBroker, RunningBroker]) -> Path:
    directory = tmp_path_factory.mktemp("day")
    here, there = clusters
    (directory / "east.yml").write_text(
        f'source: {{bootstrap: "{here.bootstrap}"}}\ntarget: {{bootstrap: "{there.bootstrap}"}}\ntopics: input\n'
    )
    (directory / "orders.yml").write_text("from: {cdc: {url: 'sqlite:///orders.db', tables: [orders]}}\nto: console\n")
    return directory


@pytest.mark.timeout(4 * _LONGEST_S)
@pytest.mark.parametrize("name", [name for name in ORDER if effort.is_long() or name not in LONG])
def test_help_examples_work(name: str, home: Path, clusters: tuple[RunningBroker, RunningBroker]) -> None:
    env = {**os.environ, "HEADRACE_BOOTSTRAP": clusters[0].bootstrap, "PATH": f"{PROGRAMS}:{os.environ['PATH']}"}
    for example in EXAMPLES[name]:
        line = example
        if name == "pipeline stop":
            running = "headrace pipeline run shout & until headrace pipeline ls | grep -q running; do sleep 0.2; done"
            line = f"{running}; {example} && wait"
        if name == "mirror offsets":
            line = f"headrace consume input --group readers; {example}"
        if name == "pipeline dlq edit":
            line = f"echo bad | headrace produce orders.dlq; {example}"
        if name == "pipeline init":
            line = f"{example} && echo hello | headrace produce input"
        done = subprocess.run(
            ["bash", "-c", line], env=env, cwd=home, capture_output=True, text=True, timeout=_LONGEST_S, check=False
        )
        assert done.returncode == 0, f"{example}\n{done.stdout}{done.stderr}"
