"""Random histories of a compacted log: a reader, a new replica and a restarted broker never see a wrong value of a key,
a deleted key that came back, an aborted record, or another last stable offset."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random
from unittest.mock import patch

import pytest

from headrace.storage.compaction import offset_map
from headrace.storage.files import SNAPSHOT_SUFFIX
from headrace.storage.log import Log
from headrace.storage.log_config import LogConfig
from headrace.storage.recovery.recovery import PartitionCheckpoints
from tests.support.compacted_logs import COMPACT, HOUR_MS, clean, end, latest, put, visible
from tests.support.effort import is_long
from tests.support.logs import NOW_MS, directory_in_memory, open_at

# How often a history takes each step.
ACTIONS = {"put": 4, "delete": 2, "transact": 4, "end": 3, "roll": 3, "clean": 3, "restart": 1}
LONG = 40


@pytest.fixture
def tmp_path() -> Iterator[Path]:
    with directory_in_memory() as directory:
        yield directory


@dataclass
class Written:
    """What one append wrote; `is_committed` is None while its transaction is open."""

    offset: int
    pairs: list[tuple[str, str | None]]
    is_committed: bool | None


@dataclass
class History:
    """A log, and what a correct log with the same history would show."""

    directory: Path
    config: LogConfig
    log: Log
    now_ms: int = NOW_MS
    checkpoint: int | None = None
    written: list[Written] = field(default_factory=list)
    open: dict[int, list[Written]] = field(default_factory=dict)
    producers: dict[int, tuple[int, int]] = field(default_factory=dict)  # epoch and next sequence

    def put(self, *pairs: tuple[str, str | None]) -> None:
        self.written.append(Written(put(self.log, *pairs), list(pairs), True))

    def transact(self, producer_id: int, pair: tuple[str, str | None]) -> None:
        epoch, sequence = self.producers.get(producer_id, (0, 0))
        self.producers[producer_id] = epoch, sequence + 1
        written = Written(put(self.log, pair, producer=(producer_id, epoch, sequence)), [pair], None)
        self.written.append(written)
        self.open.setdefault(producer_id, []).append(written)

    def end(self, producer_id: int, *, commit: bool) -> None:
        for written in self.open.pop(producer_id):
            written.is_committed = commit
        epoch = self.producers[producer_id][0]
        if producer_id % 2:  # transactions of version 2 have a new epoch each, from the marker on
            epoch += 1
            self.producers[producer_id] = epoch, 0
        end(self.log, producer_id, commit=commit, epoch=epoch)

    def clean(self, *, later_ms: int, keys: int) -> None:
        self.now_ms += later_ms
        before = visible(self.log)
        with patch.object(offset_map, "_SMALLEST_CAPACITY", keys):
            self.checkpoint = clean(self.log, now_ms=self.now_ms, checkpoint=self.checkpoint, memory_bytes=0)
        after = visible(self.log)
        assert set(after) <= set(before), "compaction only takes away"
        assert [offset for offset, _, _ in after] == sorted(offset for offset, _, _ in after)

    def restart(self, recovered_to: int, lost_snapshots: int) -> None:
        """After a crash. The start trusts the segments below `recovered_to`, and the newest snapshots are lost."""
        self.log.flush()
        self.log.close(clean=False)
        snapshots = sorted(self.directory.glob("*" + SNAPSHOT_SUFFIX), reverse=True)
        for lost in snapshots[:lost_snapshots]:
            lost.unlink()
        self.log = open_at(self.directory, self.config, marks=PartitionCheckpoints(recovery_point=recovered_to))
        self.log.advance_high_watermark(self.log.log_end_offset)

    def check(self, log: Log) -> None:
        stable = min((each[0].offset for each in self.open.values()), default=self.log.log_end_offset)
        assert log.last_stable_offset == stable
        committed = [one for one in self.written if one.is_committed and one.offset < stable]
        assert latest(visible(log)) == latest(
            [
                (one.offset, key.encode(), None if value is None else value.encode())
                for one in committed
                for key, value in one.pairs
            ]
        )


def new_replica(log: Log, directory: Path) -> Log:
    follower = open_at(directory, log.config)
    while pieces := log.read_across(follower.log_end_offset, 1 << 20):
        for piece in pieces:
            follower.append_as_follower(os.pread(piece.file.fileno(), piece.length, piece.position))
    if follower.log_end_offset < log.log_end_offset:  # nothing is left of the last segment
        follower.skip_to(log.log_end_offset, now_ms=NOW_MS)
    follower.advance_high_watermark(follower.log_end_offset)
    return follower


def live(history: History, random: Random) -> None:
    """One step of a history."""
    step = len(history.written)
    action = random.choices(list(ACTIONS), list(ACTIONS.values()))[0]
    key = random.choice("abcd")
    if action == "put":
        history.put(*[(random.choice("abcd"), f"{step}.{n}") for n in range(random.randint(1, 3))])
    elif action == "delete":
        history.put((key, None))
    elif action == "transact":
        history.transact(random.randint(1, 3), (key, random.choice([None, f"{step}"])))
    elif action == "end" and history.open:
        history.end(random.choice(sorted(history.open)), commit=random.random() < 0.5)
    elif action == "roll":
        history.log.roll()
    elif action == "clean":
        history.clean(later_ms=random.choice([0, HOUR_MS // 2, HOUR_MS + 1]), keys=random.choice([1, 3, 1024]))
        history.check(history.log)
    elif action == "restart":
        recovered_to = random.choice(sorted(history.log.segments.base_offsets))
        history.restart(recovered_to, lost_snapshots=random.choice([0, 1, 99]))
        history.check(history.log)


@pytest.mark.parametrize("seeds", range(LONG if is_long() else 1))
def test_compaction_agrees_with_a_naive_model(tmp_path: Path, seeds: int) -> None:
    for seed in range(50 * seeds, 50 * seeds + 50):
        random = Random(seed)
        directory = tmp_path / f"seed-{seed}"
        retention_ms, segment_bytes = random.choice([0, HOUR_MS]), random.choice([300, 1 << 30])
        config = replace(COMPACT, delete_retention_ms=retention_ms, segment_bytes=segment_bytes)
        history = History(directory, config, open_at(directory, config))
        try:
            for _ in range(60):
                live(history, random)
            follower = new_replica(history.log, tmp_path / f"seed-{seed}-replica")
            history.check(follower)
            follower.close()
        except Exception as error:
            error.add_note(f"seed {seed}")
            raise
        history.log.close()
