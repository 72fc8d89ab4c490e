"""kafka-dump-log on an active segment, whose indexes end with preallocated zeros."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from headrace.cli.kafka_tools.dump_log import main
from headrace.records.builder import Record, build_batch

NAME = "00000000000000000000"


@pytest.fixture
def active(tmp_path: Path) -> Path:
    batches = [build_batch([Record(None, b"x", timestamp_ms=1000 + n)], base_offset=n) for n in range(3)]
    (tmp_path / f"{NAME}.log").write_bytes(b"".join(batches))
    (tmp_path / f"{NAME}.index").write_bytes(struct.pack(">II", 1, len(batches[0])) + bytes(80))
    (tmp_path / f"{NAME}.timeindex").write_bytes(struct.pack(">qI", 1001, 1) + bytes(120))
    return tmp_path / f"{NAME}.index"


def test_preallocated_zeros_are_not_entries(active: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--files", str(active)]) == 0
    assert main(["--files", str(active.with_suffix(".timeindex"))]) == 0
    printed = [line for line in capsys.readouterr().out.splitlines() if not line.startswith("Dumping")]
    assert printed == ["offset: 1 position: 69", "timestamp: 1001 offset: 1"]


def test_an_active_index_passes_the_sanity_check(active: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--files", str(active), "--index-sanity-check"]) == 0
    assert "passed sanity check." in capsys.readouterr().out


def test_incomplete_entry_fails_the_sanity_check(active: Path) -> None:
    active.write_bytes(active.read_bytes() + b"\0\0\0")
    assert main(["--files", str(active), "--index-sanity-check"]) == 1


def test_empty_index_is_reported_as_empty(active: Path, capsys: pytest.CaptureFixture[str]) -> None:
    active.write_bytes(b"")
    assert main(["--files", str(active)]) == 0
    assert "is empty." in capsys.readouterr().out
