"""kafkajs, the JavaScript client, unchanged: administration, records, groups, transactions."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from headrace.testing import RunningBroker

SOURCE = Path(__file__).with_name("kafkajs")
PLACE = Path(__file__).resolve().parents[2] / ".cache" / "kafkajs"


def installed_project() -> Path:
    """The script with its dependency, which is installed once per lock file."""
    lock = (SOURCE / "package-lock.json").read_bytes()
    stamp = PLACE / ".installed"
    if not stamp.exists() or stamp.read_bytes() != lock:
        PLACE.mkdir(parents=True, exist_ok=True)
        for name in ("package.json", "package-lock.json"):
            shutil.copy(SOURCE / name, PLACE / name)
        subprocess.run(["npm", "ci", "--silent", "--no-audit", "--no-fund"], cwd=PLACE, check=True, timeout=180)
        stamp.write_bytes(lock)
    return PLACE


@pytest.fixture(scope="module")
def project() -> Path:
    return installed_project()


def run_kafkajs(bootstrap: str, **environment: str) -> dict[str, dict[str, Any]]:
    project = installed_project()
    shutil.copy(SOURCE / "conformance.js", project / "conformance.js")
    done = subprocess.run(
        ["node", "conformance.js", bootstrap],
        cwd=project,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return {found["check"]: found for found in map(json.loads, done.stdout.splitlines())}


@pytest.fixture(scope="module")
def checks(running: RunningBroker) -> dict[str, dict[str, Any]]:
    return run_kafkajs(running.bootstrap)


@pytest.mark.needs("node", "npm")
class TestKafkajs:
    def test_topics_are_created_once(self, checks: dict[str, dict[str, Any]]) -> None:
        assert checks["create"]["created"] is True
        assert checks["create"]["again"] is False

    def test_records_are_read_complete_in_order_and_by_key(self, checks: dict[str, dict[str, Any]]) -> None:
        records = checks["records"]
        assert records["count"] == records["values"] == 100
        assert records["inOrder"]
        assert records["keysStay"]
        assert records["header"] in ("0", "1")

    def test_its_admin_client_reads_offsets_and_groups(self, checks: dict[str, dict[str, Any]]) -> None:
        assert checks["offsets"]["total"] == 100
        assert checks["committed"]["total"] == 100
        assert checks["group"] == {"check": "group", "state": "Empty", "protocolType": "consumer"}

    def test_aborted_transactions_are_not_read(self, checks: dict[str, dict[str, Any]]) -> None:
        assert checks["transactions"]["values"] == ["kept-1", "kept-2"]

    def test_configurations_are_read_and_topics_deleted(self, checks: dict[str, dict[str, Any]]) -> None:
        assert checks["configs"]["value"] == "3600000"
        assert checks["topics"]["left"] == []
