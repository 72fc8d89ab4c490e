"""`headrace log` names the first bad byte of a damaged file, and repairs it as a broker does."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from headrace.cli.log.command import app
from headrace.records.control import build_end_txn_marker
from headrace.storage.leader_append import AppendOrigin
from headrace.storage.log_config import LogConfig
from tests.support.logs import NOW_MS, a_batch, append, directory_in_memory, open_at

BATCHES = 5


@pytest.fixture
def tmp_path() -> Iterator[Path]:
    with directory_in_memory() as directory:
        yield directory


@pytest.fixture
def data(tmp_path: Path) -> Path:
    log = open_at(tmp_path / "data" / "orders-0")
    for _ in range(BATCHES):
        append(log, a_batch(3))
    log.close()
    return tmp_path / "data"


@pytest.fixture
def rich(tmp_path: Path) -> Path:
    """A log of several segments with every type of file, each with entries."""
    log = open_at(tmp_path / "data" / "orders-0", LogConfig(segment_bytes=1500, index_interval_bytes=100))
    for at in range(12):
        batch = a_batch(2, value=bytes(80), timestamps=[NOW_MS + at] * 2, producer=(7, 0, 2 * at), transactional=True)
        append(log, batch, epoch=at // 4)
        marker = build_end_txn_marker(at % 2 == 0, 0, 7, 0, NOW_MS + at)
        log.append_as_leader(marker, leader_epoch=at // 4, now_ms=NOW_MS, origin=AppendOrigin.COORDINATOR)
    log.close()
    return tmp_path / "data"


def headrace_log(*words: str) -> subprocess.CompletedProcess[str]:
    command = [str(Path(sys.executable).with_name("headrace")), "log", *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def test_intact_log_is_dumped_and_verified(data: Path) -> None:
    dumped = headrace_log("dump", str(data), "--records", "-o", "json")
    assert [row["offset"] for row in json.loads(dumped.stdout)["orders-0"]["batches"]] == list(range(3 * BATCHES))
    assert headrace_log("verify", str(data)).returncode == 0


@pytest.mark.parametrize("byte", [0, 80], ids=["in the offset", "in a record"])
def test_flipped_byte_is_named_and_recovery_truncates_there(data: Path, byte: int) -> None:
    file = data / "orders-0" / f"{0:020d}.log"
    content = bytearray(file.read_bytes())
    third = len(content) // BATCHES * 2
    content[third + byte] ^= 1
    file.write_bytes(content)
    found = headrace_log("verify", str(data))
    assert found.returncode == 1
    assert f"{file} at byte {third}" in found.stdout
    before = contents(data)
    tried = headrace_log("recover", str(data), "--dry-run", "-o", "json")
    assert contents(data) == before
    recovered = headrace_log("recover", str(data), "--yes", "-o", "json")
    kept = re.compile(r"would be kept as a stray|kept in [^)]+")
    assert kept.sub("KEPT", tried.stdout) == kept.sub("KEPT", recovered.stdout)
    assert recovered.returncode == 0
    [row] = json.loads(headrace_log("verify", str(data), "-o", "json").stdout)
    assert (row["end_offset"], row["problems"]) == (6, [])


def contents(directory: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in directory.rglob("*") if path.is_file()}


def flipped(byte: int) -> Callable[[Path], None]:
    def flip(path: Path) -> None:
        content = bytearray(path.read_bytes())
        content[byte] ^= 0x41
        path.write_bytes(content)

    return flip


def shortened(by: int) -> Callable[[Path], None]:
    return lambda path: os.truncate(path, path.stat().st_size - by)


# (section of the dump, file, damage, expected position of the first bad byte)
HARMS: list[tuple[str, str, Callable[[Path], None], int | Callable[[int], int]]] = [
    ("batches", "{}.log", shortened(1), lambda size: size - 78),
    ("index", "{}.index", flipped(8), 8),
    ("index", "{}.index", flipped(13), 8),
    ("index", "{}.index", shortened(3), lambda size: size - 8),
    ("index", "{}.index", Path.unlink, -1),
    ("timeindex", "{}.timeindex", flipped(12 + 6), 12),
    ("timeindex", "{}.timeindex", flipped(12 + 11), 12),
    ("timeindex", "{}.timeindex", shortened(12), lambda size: size - 12),
    ("timeindex", "{}.timeindex", shortened(5), lambda size: size - 12),
    ("aborted", "{}.txnindex", flipped(34), 34),
    ("aborted", "{}.txnindex", flipped(34 + 25), 34),
    ("aborted", "{}.txnindex", shortened(34), lambda size: size - 34),
    ("aborted", "{}.txnindex", Path.unlink, -1),
    ("producers", "{}.snapshot", flipped(1), 0),
    ("producers", "{}.snapshot", flipped(30), 2),
    ("producers", "{}.snapshot", shortened(4), lambda size: size - 4),
    ("epochs", "leader-epoch-checkpoint", flipped(0), 0),
    ("epochs", "leader-epoch-checkpoint", flipped(8), 8),
    ("epochs", "leader-epoch-checkpoint", shortened(4), lambda size: size - 5),
]


def test_an_epoch_that_a_running_broker_has_not_written_yet_is_no_fault(rich: Path) -> None:
    (rich / "orders-0" / "leader-epoch-checkpoint").write_text("0\n0\n")
    verify = ["verify", str(rich)]
    assert CliRunner().invoke(app, verify).exit_code == 0
    (rich / ".kafka_cleanshutdown").touch()
    stopped = CliRunner().invoke(app, verify)
    assert stopped.exit_code == 1 and "leader-epoch-checkpoint" in stopped.stdout


@pytest.mark.parametrize(("section", "name", "harm", "byte"), HARMS)
def test_first_bad_byte_of_every_file_type_is_named_and_repaired(
    rich: Path, section: str, name: str, harm: Callable[[Path], None], byte: int | Callable[[int], int]
) -> None:
    partition = rich / "orders-0"
    bases = sorted(path.stem for path in partition.glob("*.log"))
    assert len(bases) >= 3
    file = partition / name.format(bases[1] if section != "batches" else bases[-1])
    expected = byte(file.stat().st_size) if callable(byte) else byte
    harm(file)
    run = CliRunner()
    [row] = json.loads(run.invoke(app, ["verify", str(rich), "-o", "json"]).stdout)
    assert [(found["file"], found["byte"]) for found in row["problems"]] == [(str(file), expected)]
    table = run.invoke(app, ["verify", str(partition)])
    place = "" if expected < 0 else f" at byte {expected}"
    assert table.exit_code == 1 and f"PROBLEM {file}{place}: {row['problems'][0]['what']}" in table.stdout
    dumped = run.invoke(app, ["dump", str(partition), "-w", section, "-o", "json"])
    assert dumped.exit_code == 1
    assert [found["byte"] for found in json.loads(dumped.stdout)["orders-0"]["problems"]] == [expected]
    assert f"PROBLEM {file}" in run.invoke(app, ["dump", str(partition), "-w", "all", "--records"]).stdout
    before = contents(rich)
    tried = run.invoke(app, ["recover", str(rich), "--dry-run", "-o", "json"])
    assert contents(rich) == before
    recovered = run.invoke(app, ["recover", str(partition), "--yes", "-o", "json"])
    assert tried.stdout == recovered.stdout
    [row] = json.loads(recovered.stdout)
    assert file.name in row["cut" if section == "batches" else "made_anew"]
    assert run.invoke(app, ["verify", str(rich)]).exit_code == 0
