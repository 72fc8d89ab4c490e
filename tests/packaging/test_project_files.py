"""The files for service managers, containers, CI and editors agree with the program, the Makefile and the metadata."""

from __future__ import annotations

import configparser
import json
import re
import shlex
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from headrace.cli.start import parse_arguments
from headrace.config import BrokerConfig, load_broker_config, resolve_listeners

ROOT = Path(__file__).resolve().parents[2]


def started(words: list[str]) -> BrokerConfig:
    """The configuration of the broker that `headrace start …` would run."""
    assert words[:2] == ["headrace", "start"]
    return load_broker_config(parse_arguments(words[2:]).settings)


def dockerfile_words(instruction: str) -> list[str]:
    text = (ROOT / "packaging/docker/Dockerfile").read_text()
    (found,) = re.findall(rf"^{instruction} (\[.*\])$", text, re.MULTILINE)
    return list(json.loads(found))


def make_targets(text: str) -> set[str]:
    return {target for words in re.findall(r"\bmake ((?:[a-z-]+ ?)+)", text) for target in words.split()}


def targets_of_makefile() -> set[str]:
    return set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))


def workflow() -> dict[str, Any]:
    return dict(yaml.safe_load((ROOT / ".github/workflows/ci.yml").read_text()))


def test_container_without_arguments_listens_on_loopback() -> None:
    config = started(dockerfile_words("ENTRYPOINT") + dockerfile_words("CMD"))
    assert [listener.host for listener in resolve_listeners(config).bound] == ["127.0.0.1"]


def test_composed_broker_publishes_a_loopback_port_and_advertises_both_addresses() -> None:
    service = yaml.safe_load((ROOT / "packaging/docker/compose.yaml").read_text())["services"]["broker"]
    listeners = resolve_listeners(started(dockerfile_words("ENTRYPOINT") + service["command"]))
    assert {(each.host, each.port) for each in listeners.advertised} == {("localhost", 9092), ("broker", 9094)}
    assert service["ports"] == ["127.0.0.1:9092:9092"]
    assert (ROOT / "packaging/docker" / service["build"]["context"] / service["build"]["dockerfile"]).is_file()


def test_systemd_unit_starts_a_broker_from_the_file_of_configs_init() -> None:
    unit = configparser.RawConfigParser(strict=False)
    unit.optionxform = str  # type: ignore[assignment,method-assign]
    unit.read(ROOT / "packaging/systemd/headrace.service")
    program, *words = shlex.split(unit["Service"]["ExecStart"])
    assert program.endswith("/bin/headrace")
    assert words[0] == "start"
    file = Path(str(parse_arguments(words[1:]).file))
    assert (ROOT / "config" / file.name).is_file()
    assert unit["Service"]["KillSignal"] == "SIGTERM"


def test_workflow_tests_every_python_of_the_metadata() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    named = [text.rsplit(" ", 1)[1] for text in project["classifiers"] if re.search(r"Python :: 3\.\d+$", text)]
    assert workflow()["jobs"]["quick"]["strategy"]["matrix"]["python"] == named


@pytest.mark.parametrize(
    "name",
    [
        ".github/workflows/ci.yml",
        ".github/pull_request_template.md",
        ".pre-commit-config.yaml",
        ".devcontainer/devcontainer.json",
        ".ci/run",
        "CONTRIBUTING.md",
        "README.md",
    ],
)
def test_make_targets_named_in_files_exist(name: str) -> None:
    code = re.findall(
        r"`(.*?)`|^\s*(?:- run: |entry: |exec |\"postCreateCommand\": \")?(make .*)$", (ROOT / name).read_text(), re.M
    )
    named = make_targets("\n".join(part for pair in code for part in pair))
    assert named, name
    assert named <= targets_of_makefile()


def test_ci_packages_match_the_list_of_system_programs() -> None:
    listed = (ROOT / "tests/system-programs.txt").read_text()
    wanted = {line.split("|")[1].strip() for line in listed.splitlines() if "|" in line and not line.startswith("#")}
    done = subprocess.run([ROOT / ".ci/packages"], capture_output=True, text=True, check=True, timeout=30)
    assert set(done.stdout.split()) == wanted
