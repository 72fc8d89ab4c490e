"""`headrace log` names the first bad byte of a damaged file, and repairs it the way a broker would."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.logs import a_batch, append, open_at

BATCHES = 5


@pytest.fixture
def data(tmp_path: Path) -> Path:
    log = open_at(tmp_path / "data" / "orders-0")
    for _ in range(BATCHES):
        append(log, a_batch(3))
    log.close()
    return tmp_path / "data"


def headrace_log(*words: str) -> subprocess.CompletedProcess[str]:
    command = [str(Path(sys.executable).with_name("headrace")), "log", *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def test_a_whole_log_is_dumped_and_found_whole(data: Path) -> None:
    dumped = headrace_log("dump", str(data), "--records", "-o", "json")
    assert [row["offset"] for row in json.loads(dumped.stdout)["orders-0"]["batches"]] == list(range(3 * BATCHES))
    assert headrace_log("verify", str(data)).returncode == 0


@pytest.mark.parametrize("byte", [0, 80], ids=["in the offset", "in a record"])
def test_a_flipped_byte_is_named_and_cut(data: Path, byte: int) -> None:
    file = data / "orders-0" / f"{0:020d}.log"
    content = bytearray(file.read_bytes())
    third = len(content) // BATCHES * 2
    content[third + byte] ^= 1
    file.write_bytes(content)
    found = headrace_log("verify", str(data))
    assert found.returncode == 1
    assert f"{file} at byte {third}" in found.stdout
    assert headrace_log("recover", str(data), "--yes").returncode == 0
    [row] = json.loads(headrace_log("verify", str(data), "-o", "json").stdout)
    assert (row["end_offset"], row["problems"]) == (6, [])
