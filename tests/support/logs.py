"""Short functions that make batches and logs, for the tests of records and storage."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from headrace.kernel.ids import TopicPartition
from headrace.records.batch import BatchView, batches
from headrace.records.builder import Record, build_batch
from headrace.records.compression import Codec
from headrace.records.reader import read_records
from headrace.storage.dirs.log_dirs import LogDirs, StorageSettings
from headrace.storage.log import Log
from headrace.storage.log_config import LogConfig
from headrace.storage.recovery.recovery import Damage, PartitionCheckpoints, open_log

NOW_MS = 1_700_000_000_000
PARTITION = TopicPartition("orders", 0)


def a_batch(
    count: int = 1,
    *,
    value: bytes = b"value",
    key: bytes | None = b"key",
    timestamps: Sequence[int] | None = None,
    codec: Codec = Codec.NONE,
    producer: tuple[int, int, int] | None = None,
    transactional: bool = False,
) -> bytearray:
    """`count` records; `producer` is (id, epoch, first sequence)."""
    times = list(timestamps) if timestamps is not None else [NOW_MS + at for at in range(count)]
    producer_id, epoch, sequence = producer or (-1, -1, -1)
    return bytearray(
        build_batch(
            [Record(key, value, timestamp_ms=time) for time in times],
            codec=codec,
            producer_id=producer_id,
            producer_epoch=epoch,
            base_sequence=sequence,
            transactional=transactional,
        )
    )


def open_dirs(*paths: Path, config: LogConfig | None = None, node_id: int = 1, **options: object) -> LogDirs:
    settings = StorageSettings(paths, node_id=node_id)
    return LogDirs.open(settings, config_of=lambda topic: config or LogConfig(), **options)  # type: ignore[arg-type]


def open_at(
    directory: Path,
    config: LogConfig | None = None,
    *,
    clean: bool = False,
    marks: PartitionCheckpoints | None = None,
    damages: list[Damage] | None = None,
) -> Log:
    directory.mkdir(parents=True, exist_ok=True)
    return open_log(
        directory,
        PARTITION,
        config or LogConfig(),
        clean=clean,
        marks=marks,
        now_ms=NOW_MS,
        on_damage=None if damages is None else damages.append,
    )


def append(log: Log, data: bytearray | bytes, *, epoch: int = 0, now_ms: int = NOW_MS) -> tuple[int, int]:
    appended = log.append_as_leader(data, leader_epoch=epoch, now_ms=now_ms)
    return appended.first_offset, appended.last_offset


def read_batches(log: Log, start: int | None = None, *, max_bytes: int = 1 << 20) -> list[BatchView]:
    """Reads everything from `start`, as a consumer does: read, then continue after the last batch."""
    found: list[BatchView] = []
    offset = log.log_start_offset if start is None else start
    while (piece := log.read(offset, max_bytes)) is not None:
        data = os.pread(piece.file.fileno(), piece.length, piece.position)
        assert len(data) == piece.length
        found += batches(memoryview(data))
        offset = found[-1].next_offset
    return found


def read_all(log: Log, start: int | None = None, *, max_bytes: int = 1 << 20) -> list[Record]:
    return [record for batch in read_batches(log, start, max_bytes=max_bytes) for record in read_records(batch)]


@contextmanager
def directory_in_memory() -> Iterator[Path]:
    """A directory where fsync costs nothing, for tests that open a log a thousand times."""
    home = Path("/dev/shm")
    directory = Path(tempfile.mkdtemp(prefix="headrace-", dir=home if os.access(home, os.W_OK) else None))
    try:
        yield directory
    finally:
        shutil.rmtree(directory, ignore_errors=True)
