"""`headrace registry start` and `headrace schemas`, for users and scripts."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.cli.support.reference import commands, examples
from headrace.testing import RunningBroker
from tests.cli.conftest import Ran, Run
from tests.support.registry import RunningRegistry, registry

ID = {"name": "id", "type": "long"}
ORDER = {"type": "record", "name": "Order", "fields": [ID]}
NOTE = {"name": "note", "type": "string", "default": ""}


@pytest.fixture(scope="module")
def server(running: RunningBroker) -> Iterator[RunningRegistry]:
    with registry(running.bootstrap, topic="_schemas_cli", group="schemas-cli") as started:
        yield started


@pytest.fixture
def schemas(headrace: Run, server: RunningRegistry, tmp_path: Path) -> Run:
    (tmp_path / "order.avsc").write_text(json.dumps(ORDER))

    def run(*words: str) -> Ran:
        return headrace("schemas", *words, env={"HEADRACE_REGISTRY": server.url})

    return run


def test_every_example_of_the_help_works(schemas: Run, server: RunningRegistry, tmp_path: Path) -> None:
    lines = [line for name, command in commands() if name.startswith("schemas ") for line in examples(command)]
    order = ("register", "check", "compat", "ls", "show", "diff", "export", "delete", "import")
    listed = sorted(lines, key=lambda line: order.index(line.split()[2]))
    assert {line.split()[2] for line in listed} == set(order)
    for line in listed:
        words = shlex.split(line)[2:]
        if words[0] == "import":
            for query in ("", "?permanent=true"):
                for subject in server.ask("GET", "/subjects?deleted=true")[1]:
                    server.ask("DELETE", f"/subjects/{subject}{query}")
        ran = schemas(*words, *(["--yes"] if words[0] == "delete" else []))
        assert ran.code == 0, f"{line}: {ran.err}"
    assert json.loads((tmp_path / "schemas.jsonl").read_text())["version"] == 1
    assert server.ask("GET", "/subjects/orders-value/versions/1")[1]["schema"] == json.dumps(
        ORDER, separators=(",", ":")
    )


def test_compatible_change_is_registered_and_breaking_change_is_refused_with_the_reason(
    schemas: Run, tmp_path: Path
) -> None:
    assert schemas("register", "evolve-value", "order.avsc", "-o", "json").json["version"] == 1
    longer = {**ORDER, "fields": [ID, NOTE]}
    (tmp_path / "longer.avsc").write_text(json.dumps(longer))
    assert schemas("check", "evolve-value", "longer.avsc").out == "compatible with evolve-value (BACKWARD)\n"
    assert schemas("register", "evolve-value", "longer.avsc", "-o", "json").json["version"] == 2
    changed = schemas("diff", "evolve-value", "1").out
    assert '+      "name": "note",' in changed
    (tmp_path / "broken.avsc").write_text(json.dumps(longer).replace('"long"', '"string"'))
    refused = schemas("check", "evolve-value", "broken.avsc")
    assert refused.code == 1
    assert "keep the type long" in refused.err
    assert schemas("register", "evolve-value", "broken.avsc").code == 1
    [row] = schemas("ls", "evolve", "-o", "json").json
    assert (row["type"], row["versions"], row["compatibility"]) == ("AVRO", [1, 2], "BACKWARD")
    assert schemas("compat", "evolve-value", "FULL").out == "FULL\n"


def test_an_unreachable_registry_and_a_missing_subject_are_one_sentence(headrace: Run, schemas: Run) -> None:
    gone = headrace("schemas", "ls", "--registry", "http://127.0.0.1:1")
    assert gone.code == 1
    assert gone.err.startswith("headrace: no schema registry answers at http://127.0.0.1:1")
    assert schemas("show", "nothing").err == "headrace: Subject 'nothing' not found.\n"


def test_registry_start_serves_on_loopback_and_ends_at_sigterm(running: RunningBroker) -> None:
    command = [sys.executable, "-m", "headrace.cli", "registry", "start", "--listen", "127.0.0.1:0"]
    process = subprocess.Popen(
        [*command, "--bootstrap", running.bootstrap, "--group", "start-test", "--topic", "_schemas_start"],
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ,
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline().startswith("schema registry ready on http://127.0.0.1:")
    finally:
        process.send_signal(signal.SIGTERM)
    assert process.wait(20) == 0


def test_registry_start_without_a_broker_is_one_sentence(headrace: Run) -> None:
    gone = headrace("registry", "start", "--listen", "127.0.0.1:0", "--bootstrap", "127.0.0.1:1", "--timeout", "1")
    assert gone.code == 1
    assert gone.err.splitlines()[-1].startswith("headrace: nothing listens on 127.0.0.1:1")
    assert "Traceback" not in gone.err


def test_an_address_beyond_this_machine_must_be_named_with_its_protocol(headrace: Run) -> None:
    refused = headrace("registry", "start", "--listen", "0.0.0.0:0")
    assert refused.code == 2
    assert "--listen http://0.0.0.0:0" in refused.err
