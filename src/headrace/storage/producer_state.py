"""The producer state of a partition with its `.snapshot` files, so that a start need not read the whole log.

    version i16 (1) | crc32c u32 of what follows | count i32 | per producer: id i64 | epoch i16 | last sequence i32 |
    last offset i64 | offset delta i32 | timestamp i64 | coordinator epoch i32 | first offset of the open transaction
    i64 (-1 none)

A snapshot named N has the state after every batch below offset N. The log writes one at each roll and at a clean stop.
If a snapshot is damaged, recovery deletes it, loads an older one and reads the batches since then. A snapshot has only
the last batch of a producer, as in Kafka: the other four matter only for requests in flight.
"""

from __future__ import annotations

import os
import struct
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final

from headrace.kernel.checksum import crc32c
from headrace.records.batch import NO_SEQUENCE, BatchView
from headrace.records.control import ControlType, control_of
from headrace.storage.core.producers import CompletedTransaction, Producer, Producers, RecentBatch
from headrace.storage.files import SNAPSHOT_SUFFIX, file_stem, offset_of_file, write_small_file
from headrace.storage.segment.segment import Segment
from headrace.storage.segment.txn_index import AbortedTransaction

_HEAD: Final = struct.Struct(">hIi")
_ENTRY: Final = struct.Struct(">qhiqiqiq")
_CRC_START: Final = 6
_VERSION: Final = 1


class ProducerState(Producers):
    def __init__(self, directory: Path) -> None:
        super().__init__()
        self.directory = directory
        self.snapshot_offset = -1

    def replay(self, batch: BatchView, now_ms: int | None = None) -> CompletedTransaction | None:
        """Updates the state from a batch in the log without checks, for followers and recovery. Raises CorruptBatch if
        a control record cannot be read."""
        if batch.producer_id < 0:
            return None
        if not batch.is_control:
            self.appended(batch, now_ms)
            return None
        control = control_of(batch)
        if control is None:
            self.emptied_marker_appended(batch)
            return None
        if not control.ends_transaction:
            return None
        commit, epoch = control.type is ControlType.COMMIT, control.coordinator_epoch
        return self.marker_appended(batch, commit=commit, coordinator_epoch=epoch, now_ms=now_ms)

    def aborted(self, completed: CompletedTransaction) -> AbortedTransaction:
        """The index entry of an aborted transaction."""
        stable = self.stable_after(completed)
        return AbortedTransaction(completed.producer_id, completed.first_offset, completed.last_offset, stable)

    def take_snapshot(self, offset: int, *, durable: bool = False) -> None:
        if offset == self.snapshot_offset:
            return
        write_small_file(self._path(offset), encode_snapshot(list(self.entries.values())), durable=durable)
        self.snapshot_offset = offset

    def copy_snapshot(self, directory: Path, offset: int) -> None:
        """Writes the present state as a snapshot of the log in `directory`, which ends at `offset`."""
        name = file_stem(offset) + SNAPSHOT_SUFFIX
        write_small_file(directory / name, encode_snapshot(list(self.entries.values())), durable=False)

    def load_latest(self, first_offset: int, up_to: int, *, discard_later: bool = True) -> int:
        """Loads the newest valid snapshot at or below `up_to`. Returns the offset from which to read batches.

        `first_offset` is the base offset of the first segment. A snapshot below it is of no use, because the batches
        that followed it are deleted.
        """
        for offset in sorted(self.snapshot_offsets(), reverse=True):
            path = self._path(offset)
            if offset < first_offset:
                break
            if offset > up_to:
                if discard_later:
                    path.unlink(missing_ok=True)
                continue
            entries = decode_snapshot(path.read_bytes())
            if entries is None:
                path.unlink(missing_ok=True)
                continue
            self.load(entries)
            self.snapshot_offset = offset
            return offset
        self.clear()
        self.snapshot_offset = -1
        return first_offset

    def rebuild(self, segments: Sequence[Segment], up_to: int) -> None:
        """Rebuilds the state from the newest snapshot at or below `up_to` and the batches since, also those below the
        log start. The segments end at `up_to`.
        """
        offset = self.load_latest(segments[0].base_offset if segments else up_to, up_to)
        for at, segment in enumerate(segments):
            if at + 1 == len(segments) or segments[at + 1].base_offset > offset:
                self.replay_segment(segment, offset)

    def note_written(self, segments: Sequence[Segment], now_ms: int) -> None:
        """Sets since when the producers of a log that was opened may be idle. No file says it: the last batch of a
        producer is at least as old as the last write to its segment."""
        bases = [segment.base_offset for segment in segments]
        for entry in self.entries.values():
            at = bisect_right(bases, entry.batches[-1].last_offset) - 1 if entry.batches else -1
            entry.written_ms = max(entry.last_timestamp_ms, min(segments[at].created_ms, now_ms))

    def replay_segment(self, segment: Segment, offset: int) -> None:
        """Updates the state from the batches of `segment` from `offset` on."""
        position = segment.position_of(offset)
        for batch in segment.batches(position) if position is not None else ():
            if batch.producer_id >= 0 and batch.base_offset >= offset:
                self.replay(batch)

    def snapshot_offsets(self) -> list[int]:
        return snapshots_in(self.directory)

    def drop_snapshots(self, *, keep: set[int]) -> None:
        """Deletes the snapshots that belong to no segment. The newest always stays."""
        offsets = sorted(self.snapshot_offsets())
        self.remove_snapshots(offset for offset in offsets[:-1] if offset not in keep)

    def remove_snapshots(self, offsets: Iterable[int]) -> None:
        for offset in offsets:
            self._path(offset).unlink(missing_ok=True)

    def write_snapshots(self, contents: Mapping[int, bytes]) -> None:
        for offset, content in contents.items():
            write_small_file(self._path(offset), content, durable=False)

    def start_over(self) -> None:
        """Removes every producer, in memory and on disk."""
        self.clear()
        self.remove_snapshots(self.snapshot_offsets())
        self.snapshot_offset = -1

    def _path(self, offset: int) -> Path:
        return self.directory / (file_stem(offset) + SNAPSHOT_SUFFIX)


def snapshots_in(directory: Path) -> list[int]:
    names = [entry.name for entry in os.scandir(directory)]
    found = (offset_of_file(name) for name in names if name.endswith(SNAPSHOT_SUFFIX))
    return [offset for offset in found if offset is not None]


class SnapshotsInTransactions:
    """The snapshots of a log in which a transaction is open. Replayed from one of them, the transaction would never end
    if compaction has removed its marker. Such a snapshot must lose the transaction, but not the other producers: it may
    be the only place that knows them. May run in a thread.
    """

    def __init__(self, directory: Path, below: int) -> None:
        self._directory = directory
        # By producer: the snapshots whose transaction has not met its marker, in rising order.
        self._unended: dict[int, list[int]] = {}
        self._removed: dict[int, set[int]] = {}
        for offset in sorted(offset for offset in snapshots_in(directory) if offset < below):
            for entry in self._read(offset):
                if entry.txn_first_offset is not None:
                    self._unended.setdefault(entry.producer_id, []).append(offset)

    def _read(self, offset: int) -> list[Producer]:
        try:
            return decode_snapshot((self._directory / (file_stem(offset) + SNAPSHOT_SUFFIX)).read_bytes()) or []
        except FileNotFoundError:  # retention may delete it meanwhile
            return []

    @property
    def have_open(self) -> bool:
        return bool(self._unended)

    def passed(self, producer_id: int, marker_offset: int, *, is_removed: bool) -> None:
        """A marker, in offset order. It ends what is open in the snapshots before it."""
        unended = self._unended.get(producer_id, [])
        while unended and unended[0] <= marker_offset:
            offset = unended.pop(0)
            if is_removed:
                self._removed.setdefault(offset, set()).add(producer_id)

    def replacements(self) -> dict[int, bytes]:
        """The snapshots that lose transactions, as they are without these."""
        found = {}
        for offset, producer_ids in self._removed.items():
            entries = self._read(offset)
            for entry in entries:
                if entry.producer_id in producer_ids:
                    entry.txn_first_offset = None
            if entries:
                found[offset] = encode_snapshot(entries)
        return found


def encode_snapshot(entries: list[Producer]) -> bytes:
    out = bytearray(_HEAD.pack(_VERSION, 0, len(entries)))
    for entry in entries:
        last = entry.batches[-1] if entry.batches else RecentBatch(NO_SEQUENCE, -1, 0, entry.last_timestamp_ms)
        txn_first_offset = -1 if entry.txn_first_offset is None else entry.txn_first_offset
        out += _ENTRY.pack(
            entry.producer_id,
            entry.epoch,
            last.last_sequence,
            last.last_offset,
            last.offset_delta,
            entry.last_timestamp_ms,
            entry.coordinator_epoch,
            txn_first_offset,
        )
    struct.pack_into(">I", out, 2, crc32c(memoryview(out)[_CRC_START:]))
    return bytes(out)


def fault_in_snapshot(data: bytes) -> tuple[int, str] | None:
    """The first bad byte and what is wrong there, or None if the snapshot is valid."""
    if len(data) < _HEAD.size:
        return len(data), f"ends inside its head of {_HEAD.size} bytes"
    version, crc, count = _HEAD.unpack_from(data)
    if version != _VERSION:
        return 0, f"version {version} is not {_VERSION}"
    expected = _HEAD.size + count * _ENTRY.size
    if len(data) != expected:
        return max(_CRC_START, min(len(data), expected)), f"{count} producers take {expected} bytes, not {len(data)}"
    computed = crc32c(memoryview(data)[_CRC_START:])
    if crc != computed:
        return 2, f"checksum {crc:#010x} where the bytes give {computed:#010x}"
    return None


def decode_snapshot(data: bytes) -> list[Producer] | None:
    """The producers, or None if the snapshot is damaged."""
    if fault_in_snapshot(data) is not None:
        return None
    producers = []
    for at in range(_HEAD.size, len(data), _ENTRY.size):
        producer_id, epoch, sequence, offset, delta, timestamp_ms, coordinator_epoch, first = _ENTRY.unpack_from(
            data, at
        )
        producer = Producer(producer_id, epoch, coordinator_epoch, timestamp_ms, None if first < 0 else first)
        if offset >= 0:
            producer.batches.append(RecentBatch(sequence, offset, delta, timestamp_ms))
        producers.append(producer)
    return producers
