"""`headrace kafka` offers every tool of `bin/`, under the name of Kafka's script."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from headrace.cli.kafka import TOOLS

BIN = Path(__file__).resolve().parents[3] / "bin"


def scripts() -> dict[str, str]:
    """Tool → module, from the scripts in bin/."""
    found = {}
    for script in BIN.glob("*.sh"):
        module = re.search(r'headrace-tool" ([\w.]+) ', script.read_text())
        assert module is not None, script
        found[script.stem.removeprefix("kafka-")] = module[1]
    return found


def headrace_kafka(*words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "headrace.cli", "kafka", *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def test_tools_are_the_scripts_of_bin() -> None:
    assert scripts() == TOOLS


@pytest.mark.parametrize("words", [(), ("--help",), ("-h",)])
def test_list_of_tools(words: tuple[str, ...]) -> None:
    done = headrace_kafka(*words)
    assert done.returncode == 0
    assert [line.strip() for line in done.stdout.splitlines()[2:]] == list(TOOLS)


def test_options_and_exit_code_are_those_of_the_tool() -> None:
    assert headrace_kafka("topics", "--help").stdout.startswith("Create, delete, describe")
    wrong = headrace_kafka("topics", "--no-such-option")
    assert wrong.returncode == 1
    assert "no-such-option" in wrong.stderr


def test_unknown_tool_names_the_nearest() -> None:
    done = headrace_kafka("topisc")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "headrace kafka: there is no tool 'topisc'. Did you mean 'topics'?\n"
