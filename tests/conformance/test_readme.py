"""The README's tour works as written."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

from headrace.testing import RunningBroker

ROOT = Path(__file__).resolve().parents[2]


def commands() -> list[str]:
    """Every command of the tour's shell block, without its comments."""
    tour = (ROOT / "README.md").read_text().split("## A two-minute tour")[1]
    block = re.search(r"```sh\n(.*?)```", tour, re.DOTALL)
    assert block is not None
    lines = [line for line in block[1].splitlines() if line and not line.startswith("#")]
    return re.sub(r"\\\n\s*", "", "\n".join(lines)).splitlines()


def test_the_tour_runs_as_it_is_written(running: RunningBroker) -> None:
    outputs: list[str] = []
    for command in commands():
        here = command.replace("localhost:9092", running.bootstrap)
        done = subprocess.run(here, shell=True, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 0, f"{here}\n{done.stdout}{done.stderr}"
        outputs.append(done.stdout)
    created, _, read, lag, altered = outputs
    assert "Created topic orders" in created
    assert sorted(read.split("\n")[:3]) == ["ann\tcake", "ann\ttea", "bob\tcoffee"]
    assert read.index("tea") < read.index("cake")
    assert "kitchen" in lag
    assert "Completed updating config for topic orders" in altered


def test_the_two_commands_come_first() -> None:
    opening = (ROOT / "README.md").read_text().split("## ")[0]
    assert re.findall(r"^make (\w+)", opening, re.MULTILINE) == ["run", "test"]


def test_every_link_in_the_readme_leads_somewhere() -> None:
    for target in re.findall(r"\]\((?!http)([^)#]+)\)", (ROOT / "README.md").read_text()):
        assert (ROOT / target).exists(), target
