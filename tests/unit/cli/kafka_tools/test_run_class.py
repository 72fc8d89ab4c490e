"""kafka-run-class runs Kafka's tools by the names of their Java classes."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
import zipfile

import pytest

from headrace.cli.kafka_tools.run_class import CLASSES, class_and_arguments
from tests.reference import kafka


def run(*words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "headrace.cli.kafka_tools.run_class", *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.parametrize("name", ["kafka.tools.GetOffsetShell", "org.apache.kafka.tools.GetOffsetShell"])
def test_a_tool_runs_by_its_class(name: str) -> None:
    done = run("-name", "offsets", "-loggc", name, "--help")
    assert (done.returncode, "Show offsets of partitions." in done.stdout + done.stderr) == (0, True)


def test_wrong_calls_are_answered_with_a_sentence() -> None:
    assert run().stderr.startswith("USAGE: kafka-run-class.sh")
    done = run("kafka.tools.GetOfsetShell")
    assert (done.returncode, done.stderr.strip()) == (
        1,
        "Error: Could not find or load main class kafka.tools.GetOfsetShell: Headrace has only Kafka's own tools. "
        "Did you mean 'kafka.tools.GetOffsetShell'?",
    )


def test_options_of_the_script_are_not_given_to_the_tool() -> None:
    words = ["-daemon", "-name", "kafkaServer", "-loggc", "kafka.Kafka", "server.properties"]
    assert class_and_arguments(words) == ("kafka.Kafka", ["-daemon", "server.properties"])


def test_every_class_has_its_tool() -> None:
    for module in CLASSES.values():
        assert importlib.util.find_spec(f"headrace.cli.kafka_tools.{module}") is not None


@pytest.mark.needs("kafka")
def test_the_classes_of_kafka_4_are_in_its_jars() -> None:
    found = {
        name.removesuffix(".class").replace("/", ".")
        for jar in kafka.fetch().glob("kafka*.jar")
        for name in zipfile.ZipFile(jar).namelist()
    }
    assert not {name for name in CLASSES if name.startswith("org.apache.kafka.")} - found
