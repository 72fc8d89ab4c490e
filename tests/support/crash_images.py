"""A log at the moment of a machine crash, copies of it to damage, and a summary of a log's state."""

from __future__ import annotations

import os
import random
import shutil
from pathlib import Path
from typing import Any

from headrace.records.compression import Codec
from headrace.records.control import build_end_txn_marker
from headrace.storage.log import AppendOrigin, Log
from headrace.storage.log_config import LogConfig
from tests.support.logs import NOW_MS, a_batch, append, open_at, read_batches

CONFIG = LogConfig(segment_bytes=40_000, index_interval_bytes=512, segment_index_bytes=16_384)


def fill(log: Log, batches: int = 420) -> None:
    """Plain, idempotent and transactional batches of all codecs over several epochs, with some open transactions."""
    random_source = random.Random(7)
    sequences: dict[int, int] = {}
    for at in range(batches):
        count, epoch = random_source.randint(1, 6), at // 90
        codec, value = Codec(at % 5), random_source.randbytes(random_source.randint(1, 120))
        if at % 3 == 0:
            append(log, a_batch(count, value=value, codec=codec, timestamps=[NOW_MS + at] * count), epoch=epoch)
            continue
        producer = 100 + at % 7
        data = a_batch(
            count,
            value=value,
            codec=codec,
            producer=(producer, 0, sequences.get(producer, 0)),
            transactional=producer % 2 == 0,
        )
        append(log, data, epoch=epoch)
        sequences[producer] = sequences.get(producer, 0) + count
        if producer % 2 == 0 and random_source.random() < 0.3:
            marker = build_end_txn_marker(random_source.random() < 0.5, 1, producer, 0, NOW_MS + at)
            log.append_as_leader(marker, leader_epoch=epoch, now_ms=NOW_MS, origin=AppendOrigin.COORDINATOR)


def state(log: Log) -> dict[str, Any]:
    """The complete state of a log. Of a producer only the last batch, because a snapshot keeps only that."""
    return {
        "marks": (log.log_start_offset, log.log_end_offset),
        "epochs": log.leader_epochs.entries,
        "producers": {
            pid: (
                p.epoch,
                p.coordinator_epoch,
                p.last_timestamp_ms,
                p.txn_first_offset,
                [m[:3] for m in p.batches][-1:],
            )
            for pid, p in log.producers.entries.items()
        },
        "ongoing": log.producers.ongoing,
        "aborted": [segment.txn_index.entries for segment in log.segments.all],
        "indexes": [(list(s.offset_index.entries()), list(s.time_index.entries())) for s in log.segments.all[:-1]],
        "newest": [(segment.max_timestamp_ms, segment.offset_of_max_timestamp) for segment in log.segments.all],
        "bytes": b"".join(bytes(batch.data) for batch in read_batches(log)),
    }


class Original:
    """A log at the moment of a machine crash, and ways to make images of it."""

    def __init__(self, directory: Path, config: LogConfig = CONFIG) -> None:
        self.directory = directory / "original"
        self.images = directory
        log = open_at(self.directory, config)
        fill(log)
        self.batches = [bytes(batch.data) for batch in read_batches(log)]
        self.ends = [batch.next_offset for batch in read_batches(log)]
        self.segment_files = [(segment.path.name, segment.size_bytes) for segment in log.segments.all]
        self.size = log.size_bytes
        self.epochs = log.leader_epochs.entries
        log.close(clean=False)

    def image(self, name: str = "image") -> Path:
        image = self.images / name
        for outdated in [image, *self.images.glob("*-stray")]:
            shutil.rmtree(outdated, ignore_errors=True)
        shutil.copytree(self.directory, image)
        return image

    def cut(self, image: Path, size: int) -> None:
        """Keeps the first `size` bytes of all data files together."""
        for name, length in self.segment_files:
            if size <= 0 and length > 0:
                for path in image.glob(name.partition(".")[0] + ".*"):
                    path.unlink()
            else:
                os.truncate(image / name, min(length, size))
            size -= length

    def batches_within(self, size: int) -> int:
        whole = 0
        for data in self.batches:
            size -= len(data)
            if size < 0:
                break
            whole += 1
        return whole
