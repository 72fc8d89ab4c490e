"""Replays a coordinator's log into its shard, in slices, so that other tasks run in between."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from typing import Final, Protocol

from headrace.coordinators.runtime.log import CoordinatorLog
from headrace.records.batch import BatchView, batches
from headrace.records.control import ControlType, read_control
from headrace.records.reader import read_records

_log = logging.getLogger(__name__)

_SLICE_SECONDS: Final = 0.01  # how long loading may block the event loop before other tasks run


class Replays(Protocol):
    """The part of a shard that replay needs."""

    def replay(self, key: bytes, value: bytes | None, offset: int, producer_id: int, producer_epoch: int) -> None: ...

    def replay_end_marker(self, producer_id: int, producer_epoch: int, commit: bool) -> None: ...


async def replay_log(name: str, log: CoordinatorLog, shard: Replays, wanted: Callable[[], bool]) -> bool:
    """False when the load was cancelled because the shard is not needed any more."""
    started = time.monotonic()
    slice_ends = started + _SLICE_SECONDS
    count = 0
    for chunk in log.read_from_start():
        for batch in batches(memoryview(chunk)):
            count += _replay_batch(batch, shard)
            if time.monotonic() > slice_ends:
                await asyncio.sleep(0)
                slice_ends = time.monotonic() + _SLICE_SECONDS
            if not wanted():
                return False
    _log.info("%s: loaded %d records in %.3f s", name, count, time.monotonic() - started)
    return True


def _replay_batch(batch: BatchView, shard: Replays) -> int:
    records = read_records(batch)
    producer_epoch = batch.producer_epoch
    if batch.is_control:
        for record in records:
            marker = read_control(record)
            if marker.ends_transaction:
                shard.replay_end_marker(batch.producer_id, producer_epoch, marker.type is ControlType.COMMIT)
    else:
        producer_id = batch.producer_id if batch.is_transactional else -1
        for record in records:
            if record.key is not None:
                shard.replay(record.key, record.value, record.offset, producer_id, producer_epoch)
    return len(records)
