"""Open descriptors of a partition: thousands of small partitions must fit into the limit of a process."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from headrace.storage.dirs.log_dirs import LogDirs, StorageSettings
from headrace.storage.log_config import LogConfig
from tests.support.logs import a_batch, append


def opened(path: Path) -> LogDirs:
    return LogDirs.open(StorageSettings((path,), node_id=1), config_of=lambda topic: LogConfig())


def held(below: Path) -> list[str]:
    found = []
    for link in Path("/proc/self/fd").iterdir():
        # A thread of an earlier test may close its file meanwhile.
        with suppress(FileNotFoundError):
            found.append(link.readlink())
    return sorted(path.suffix for path in found if path.is_relative_to(below))


def test_small_partition_has_one_open_descriptor(tmp_path: Path) -> None:
    below = tmp_path / "orders-0"
    dirs = opened(tmp_path)
    append(dirs.create("orders", 0), a_batch(1))
    assert held(below) == [".log"]
    dirs.close()

    again = opened(tmp_path)
    log = again.logs()[0]
    assert held(below) in ([], [".log"]), "nor do its indexes cost any after a restart"
    for _ in range(50):
        append(log, a_batch(1, value=b"x" * 1_000))
    assert held(below) == [".index", ".log"], "an index is open once it has something to write"
    again.close()
    assert held(below) == []
