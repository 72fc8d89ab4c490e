"""`python -m benchmarks.log [--rounds N] [--directory DIR] [--json FILE]`: cost of the log on top of the disk's.

The benchmark compares appends with `os.write` of the same bytes, and the recovery scan with a plain CRC-32C pass over
the same file. It measures each pair in turns in the same run and prints medians. It writes each file once before it
measures, because writes to new disk blocks are slower than the measured work. It compares compaction with Apache
Kafka's log cleaner on the same segments (see `compaction`), the best turn of each.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import struct
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

from crc32c import crc32c
from rich.console import Console
from rich.table import Table

from benchmarks import compaction
from headrace.kernel.ids import TopicPartition
from headrace.records.builder import Record, build_batch
from headrace.storage.dirs.log_dirs import LogDirs, StorageSettings
from headrace.storage.log import Log
from headrace.storage.log_config import LogConfig
from headrace.storage.recovery.recovery import open_log

NOW_MS = 1_700_000_000_000
CONFIG = LogConfig(max_message_bytes=16 << 20)


@dataclass
class Line:
    name: str
    unit: str
    measured: float
    plain: float | None
    ratio: float | None
    goal: str
    met: bool | None


def a_batch(size: int) -> bytearray:
    record_bytes = min(size, 1000)
    records = [
        Record(None, os.urandom(record_bytes - 20), timestamp_ms=NOW_MS) for _ in range(max(1, size // record_bytes))
    ]
    return bytearray(build_batch(records))


def seconds(operation: Callable[[], None]) -> float:
    began = time.perf_counter()
    operation()
    return time.perf_counter() - began


def append_line(directory: Path, size: int, goal: float | None, rounds: int) -> Line:
    """Megabytes per second through a log and through a plain file."""
    batch = a_batch(size)
    count = max(20, min(3000, (64 << 20) // len(batch)))
    ours, plain = [], []
    for _ in range(rounds + 1):
        log = open_log(_fresh(directory / "log"), TopicPartition("bench", 0), CONFIG, clean=False, now_ms=NOW_MS)
        # The first batch of an epoch also writes the epoch checkpoint, which is not measured.
        _append(log, batch, 1)
        ours.append(_timed_append(log, batch, count))
        log.close(clean=False)
        with (directory / "plain").open("wb", buffering=0) as file:
            plain.append(_timed_write(file.fileno(), batch, count))
    megabytes = len(batch) * count / 1e6
    measured, beside = megabytes / statistics.median(ours[1:]), megabytes / statistics.median(plain[1:])
    ratio = measured / beside
    name = f"append, batches of {len(batch):,} bytes"
    return Line(name, "MB/s", measured, beside, ratio, f"≥ {goal}" if goal else "", ratio >= goal if goal else None)


def _timed_append(log: Log, batch: bytearray, count: int) -> float:
    return seconds(lambda: _append(log, batch, count))


def _timed_write(fd: int, batch: bytearray, count: int) -> float:
    return seconds(lambda: _write(fd, batch, count))


def _append(log: Log, batch: bytearray, count: int) -> None:
    for _ in range(count):
        # The log wrote offsets into the batches in the last turn. A client's batch begins at 0.
        struct.pack_into(">q", batch, 0, 0)
        log.append_as_leader(batch, leader_epoch=0, now_ms=NOW_MS)


def _write(fd: int, batch: bytearray, count: int) -> None:
    for _ in range(count):
        os.write(fd, batch)


def _fresh(directory: Path) -> Path:
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    return directory


def recovery_line(directory: Path, rounds: int) -> Line:
    home = _fresh(directory / "recovery")
    partition = TopicPartition("bench", 0)
    log = open_log(home, partition, CONFIG, clean=False, now_ms=NOW_MS)
    _append(log, a_batch(16_000), 16_000)
    path, size = log.active_segment.path, log.size_bytes
    log.close(clean=False)
    ours, plain = [], []
    for _ in range(rounds + 1):
        plain.append(seconds(lambda: _bare_crc(path)))
        ours.append(seconds(lambda: open_log(home, partition, CONFIG, clean=False).close(clean=False)))
    measured, beside = size / 1e6 / statistics.median(ours[1:]), size / 1e6 / statistics.median(plain[1:])
    return Line("recovery scan", "MB/s", measured, beside, measured / beside, "≥ 0.5", measured / beside >= 0.5)


def _bare_crc(path: Path) -> None:
    buffer = bytearray(1 << 20)
    checksum = 0
    with path.open("rb", buffering=0) as file:
        while count := file.readinto(buffer):
            checksum = crc32c(memoryview(buffer)[:count], checksum)


def read_line(directory: Path, rounds: int) -> Line:
    log = open_log(_fresh(directory / "read"), TopicPartition("bench", 0), CONFIG, clean=False, now_ms=NOW_MS)
    _append(log, a_batch(1000), 5000)
    end = log.log_end_offset

    def tail() -> None:
        for _ in range(2000):
            log.read(end - 1, 1 << 20, up_to=end)

    each = statistics.median(seconds(tail) for _ in range(rounds)) / 2000 * 1e6
    log.close(clean=False)
    return Line("finding a slice at the tail", "µs", each, None, None, "", None)


def opening_line(directory: Path, rounds: int) -> Line:
    settings = StorageSettings([_fresh(directory / "many")])
    dirs = LogDirs.open(settings)
    for index in range(1000):
        _append(dirs.create("bench", index), a_batch(1000), 3)
    dirs.close()
    each = []
    for _ in range(rounds):
        began = time.perf_counter()
        dirs = LogDirs.open(settings)
        each.append(time.perf_counter() - began)
        dirs.close()
    measured = statistics.median(each)
    return Line("opening a clean partition (of 1,000)", "ms", measured, None, None, "≤ 2", measured <= 2)


def compaction_lines(directory: Path) -> list[Line]:
    """The column `plain` is Apache Kafka here."""
    return [
        Line(name, "MB/s", measured, theirs, measured / theirs if theirs else None, "", None)
        for name, measured, theirs in compaction.compare(_fresh(directory / "compaction"))
    ]


def run(directory: Path, rounds: int) -> list[Line]:
    return [
        append_line(directory, 1_000_000, 0.6, rounds),
        append_line(directory, 16_000, 0.4, rounds),
        append_line(directory, 150, None, rounds),
        read_line(directory, rounds),
        recovery_line(directory, rounds),
        opening_line(directory, rounds),
        *compaction_lines(directory),
    ]


def show(lines: list[Line], file: Path) -> None:
    table = Table(title="the log compared with the plain disk, and compaction with Apache Kafka")
    for heading in ("row", "unit", "Headrace", "beside", "ratio", "goal", "met"):
        table.add_column(heading, justify="left" if heading in ("row", "unit") else "right")
    for line in lines:
        plain, ratio = ("–" if value is None else f"{value:,.2f}" for value in (line.plain, line.ratio))
        met = {True: "yes", False: "NO", None: "–"}[line.met]
        table.add_row(line.name, line.unit, f"{line.measured:,.2f}", plain, ratio, line.goal, met)
    Console(width=120).print(table)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps([asdict(line) for line in lines], indent=2) + "\n")
    print(f"JSON: {file}")


def main() -> None:
    parser = argparse.ArgumentParser(prog="benchmarks.log", description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--directory", type=Path, help="Directory for the files. Default: a temporary directory.")
    parser.add_argument("--json", type=Path, default=Path("build/bench/log.json"))
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="headrace-bench-log-", dir=given.directory) as directory:
        show(run(Path(directory), given.rounds), given.json)


if __name__ == "__main__":
    main()
