"""Compacted logs for tests: writes keyed records and transactions, compacts them, and reads them as a `read_committed`
consumer."""

from __future__ import annotations

from headrace.records.builder import Record, build_batch
from headrace.records.compression import Codec
from headrace.records.control import build_end_txn_marker
from headrace.records.reader import read_records
from headrace.storage.compaction.cleaner import Cleaner
from headrace.storage.compaction.job import dirt_of, install, prepare
from headrace.storage.leader_append import AppendOrigin
from headrace.storage.log import Log
from headrace.storage.log_config import LogConfig
from tests.support.logs import NOW_MS, read_batches

HOUR_MS = 3_600_000
COMPACT = LogConfig(cleanup_policy=frozenset({"compact"}), delete_retention_ms=HOUR_MS, min_cleanable_dirty_ratio=0.0)


def put(
    log: Log, *pairs: tuple[str, str | None], producer: tuple[int, int, int] | None = None, codec: Codec = Codec.NONE
) -> int:
    records = [Record(k.encode(), None if v is None else v.encode(), timestamp_ms=NOW_MS) for k, v in pairs]
    producer_id, epoch, sequence = producer or (-1, -1, -1)
    data = build_batch(
        records,
        codec=codec,
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=sequence,
        transactional=producer is not None,
    )
    appended = log.append_as_leader(bytearray(data), leader_epoch=0, now_ms=NOW_MS)
    log.advance_high_watermark(log.log_end_offset)
    return appended.first_offset


def end(log: Log, producer_id: int, *, commit: bool, epoch: int = 0) -> None:
    marker = build_end_txn_marker(commit, 0, producer_id, epoch, NOW_MS)
    log.append_as_leader(bytearray(marker), leader_epoch=0, now_ms=NOW_MS, origin=AppendOrigin.COORDINATOR)
    log.advance_high_watermark(log.log_end_offset)


def clean(
    log: Log,
    *,
    now_ms: int = NOW_MS,
    checkpoint: int | None = None,
    memory_bytes: int = 1 << 20,
    replicated: int | None = None,
) -> int:
    """One round. Returns the offset up to which the log is clean."""
    dirt = dirt_of(log, checkpoint, now_ms)
    job = prepare(log, dirt, replicated_up_to=log.high_watermark if replicated is None else replicated, now_ms=now_ms)
    cleaned = Cleaner(memory_bytes).clean(job)
    assert install(log, job, cleaned, now_ms)
    return cleaned.clean_up_to


def visible(log: Log) -> list[tuple[int, bytes, bytes | None]]:
    """Records that a `read_committed` consumer sees, in order: (offset, key, value)."""
    aborted = log.aborted_transactions(log.log_start_offset, log.log_end_offset)
    found = []
    for batch in read_batches(log):
        if batch.is_control or batch.base_offset >= log.last_stable_offset:
            continue
        skipped = batch.is_transactional and any(
            entry.producer_id == batch.producer_id and entry.first_offset <= batch.base_offset <= entry.last_offset
            for entry in aborted
        )
        if not skipped:
            found += [(r.offset, r.key or b"", r.value) for r in read_records(batch)]
    return found


def latest(records: list[tuple[int, bytes, bytes | None]]) -> dict[bytes, bytes]:
    state: dict[bytes, bytes] = {}
    for _, key, value in records:
        if value is None:
            state.pop(key, None)
        else:
            state[key] = value
    return state
