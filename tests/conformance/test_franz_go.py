"""franz-go, the Go client, unchanged: every codec, a classic and a KIP-848 group, transactions, administration."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from headrace.testing import RunningBroker

SOURCE = Path(__file__).with_name("franz_go")
PROGRAM = Path(__file__).resolve().parents[2] / ".cache" / "franz-go" / "conformance"


def run_franz_go(bootstrap: str, **environment: str) -> dict[str, dict[str, Any]]:
    # Go caches its build, so only the first run compiles.
    PROGRAM.parent.mkdir(parents=True, exist_ok=True)
    built = subprocess.run(
        ["go", "build", "-o", str(PROGRAM), "."], cwd=SOURCE, capture_output=True, text=True, timeout=280, check=False
    )
    assert built.returncode == 0, built.stderr
    done = subprocess.run(
        [str(PROGRAM), bootstrap],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=90,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return {found["check"]: found for found in map(json.loads, done.stdout.splitlines())}


@pytest.fixture(scope="module")
def checks(running: RunningBroker) -> dict[str, dict[str, Any]]:
    return run_franz_go(running.bootstrap)


@pytest.mark.needs("go")
class TestFranzGo:
    def test_a_topic_is_created_once(self, checks: dict[str, dict[str, Any]]) -> None:
        assert checks["create"]["again"] is True

    def test_records_of_every_codec_are_read(self, checks: dict[str, dict[str, Any]]) -> None:
        assert checks["records"]["count"] == checks["records"]["values"] == 200

    def test_both_group_protocols_read_everything(self, checks: dict[str, dict[str, Any]]) -> None:
        assert checks["groups"]["classic"] == "go-classic"
        assert checks["groups"]["next"] == 200
        assert checks["groups"]["epoch"] >= 1, "the group was not a KIP-848 one"
        assert checks["lag"]["total"] == 0

    def test_aborted_transactions_are_not_read(self, checks: dict[str, dict[str, Any]]) -> None:
        assert checks["transactions"]["values"] == ["kept-1", "kept-2"]

    def test_records_are_deleted_up_to_an_offset(self, checks: dict[str, dict[str, Any]]) -> None:
        assert checks["deleted"]["start"] == 1
