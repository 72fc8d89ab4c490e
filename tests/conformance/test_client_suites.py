"""kafka-python's own integration suite, from its source package, passes against Headrace (tests/suites/FINDINGS.md)."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from headrace.testing import BrokerProcess
from tests.reference.kafka import free_port

ROOT = Path(__file__).resolve().parents[2]
SUITES = ROOT / "tests" / "suites"
CACHE = ROOT / ".cache" / "suites"
VERSION = "3.0.12"
LEFT_OUT = re.findall(r"^\| (test_\w+) \|", (SUITES / "FINDINGS.md").read_text(), flags=re.MULTILINE)


@pytest.fixture(scope="module")
def suite() -> Path:
    """The unpacked source package, fetched once."""
    place = CACHE / f"kafka_python-{VERSION}"
    if not place.exists():
        CACHE.mkdir(parents=True, exist_ok=True)
        fetch = [
            sys.executable,
            "-m",
            "pip",
            "download",
            "--quiet",
            "--no-deps",
            "--no-binary",
            ":all:",
            "-d",
            str(CACHE),
        ]
        subprocess.run([*fetch, f"kafka-python=={VERSION}"], check=True, timeout=180)
        with tarfile.open(CACHE / f"kafka_python-{VERSION}.tar.gz") as archive:
            archive.extractall(CACHE, filter="data")
    # Python has a package named `test` of its own, which wins over a folder that is not one.
    (place / "test" / "__init__.py").touch()
    return place


@pytest.mark.timeout(400)
def test_kafka_pythons_own_suite_passes(suite: Path, tmp_path: Path) -> None:
    port = free_port()
    # The suite looks for an advertised address that was configured.
    settings = {"num.partitions": "4", "broker.id": "0", "advertised.listeners": f"PLAINTEXT://127.0.0.1:{port}"}
    running = BrokerProcess(settings, tmp_path / "data", port=port)
    try:
        environment = os.environ | {
            "PYTHONPATH": f"{suite}:{SUITES}",
            "KAFKA_VERSION": "4.2.0",
            "KAFKA_URI": f"kafka://{running.bootstrap}",
        }
        options = [
            "-q",
            "-p",
            "kafka_python_on_headrace",
            "-p",
            "no:cacheprovider",
            "-c",
            os.devnull,
            "--rootdir",
            str(suite),
        ]
        files = [f"test/integration/test_{name}_integration.py" for name in ("admin", "consumer", "producer")]
        chosen = ["-k", " and ".join(f"not {name}" for name in LEFT_OUT), "--timeout", "120", "--tb=short"]
        done = subprocess.run(
            [sys.executable, "-m", "pytest", *options, *chosen, *files],
            cwd=suite, env=environment, capture_output=True, text=True, timeout=380, check=False,
        )  # fmt: skip
    finally:
        running.stop()
    counted = re.search(r"(\d+) passed", done.stdout)
    assert done.returncode == 0, done.stdout[-6000:]
    assert counted is not None
    assert int(counted[1]) >= 40, f"the suite shrank: {done.stdout[-500:]}"
