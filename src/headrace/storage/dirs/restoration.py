"""Restores a stray while no broker has the log directory open.

A stray of the kind `log` moves back to its partition, or to the same partition of another topic. The target must not
exist or must be a log without records; the records then belong to the target's topic. A log that changes its topic
starts a new history of leader epochs, because the old epochs could be higher than those of the new topic. A stray of
the kind `cut` no longer fits into its old log, so its whole batches are copied with their offsets into the empty log of
another topic; the stray stays.

The records are on the disk after each step: files inside the stray are prepared first, then it is renamed.
"""

from __future__ import annotations

import contextlib
import os
import struct
from pathlib import Path
from typing import Final

from headrace.kernel.dataclass import dataclass
from headrace.kernel.errors import ErrorCode, Refused
from headrace.kernel.ids import TopicPartition
from headrace.records.batch import LEADER_EPOCH_AT, BatchView
from headrace.storage.core.salvage import good_batches
from headrace.storage.dirs.checkpoints import (
    CLEANER_FILE,
    HIGH_WATERMARK_FILE,
    LEADER_EPOCH_FILE,
    LOG_START_FILE,
    PARTITION_METADATA_FILE,
    RECOVERY_POINT_FILE,
    CorruptFile,
    read_offsets,
    write_epochs,
    write_offsets,
    write_topic_id,
)
from headrace.storage.dirs.strays import NOTE_FILE, Stray, StrayKind
from headrace.storage.dirs.unopened_log import data_files, offsets_in, owner_of, places_in
from headrace.storage.files import (
    DELETED_DIR_SUFFIX,
    LOG_SUFFIX,
    file_stem,
    marked_directory_name,
    sync_directory,
    sync_file,
    write_small_file,
)

_FIRST_EPOCH: Final = 0
_EPOCH: Final = struct.Struct(">i")


class CannotRestore(Refused):
    """The stray cannot be restored. The message says what to do instead."""

    def __init__(self, message: str) -> None:
        super().__init__(ErrorCode.invalid_request, message)


@dataclass(frozen=True, slots=True)
class Restored:
    """Where the records are now. `adopted`: they belong to a new topic id."""

    directory: Path
    first_offset: int
    end_offset: int
    adopted: bool


def destination(stray: Stray, to_topic: str | None = None) -> TopicPartition:
    """Which partition's log the stray becomes. Raises CannotRestore."""
    log_dir = stray.path.parent
    place = TopicPartition(to_topic or stray.topic, stray.partition)
    if stray.kind is StrayKind.CUT and place.topic == stray.topic:
        raise CannotRestore(
            f"{stray.path.name} was cut from {place}, which has gone on since: its records cannot go back there. "
            "Create another topic, stop the broker, and restore with --to TOPIC"
        )
    if (log_dir / str(place)).exists():
        _check_empty(log_dir / str(place), stray, place)
    elif place.topic != stray.topic:
        raise CannotRestore(
            f"{log_dir} holds no log of {place}: start the broker, create topic {place.topic} with at least "
            f"{place.partition + 1} partitions (the replica of partition {place.partition} on this broker), stop the "
            "broker and restore again"
        )
    return place


def restore(stray: Stray, to_topic: str | None = None) -> Restored:
    """The caller holds the lock of the log directory. Raises CannotRestore, OSError."""
    place = destination(stray, to_topic)
    target = stray.path.parent / str(place)
    _forget_marks(stray.path.parent, place)
    return _copy_batches(stray, place, target) if stray.kind is StrayKind.CUT else _move_back(stray, place, target)


def _forget_marks(log_dir: Path, place: TopicPartition) -> None:
    """The checkpoints know the empty log in place of which the stray comes. It may have had records, up to a higher
    offset: then the restored log would count as one that lost records, and compaction would take it for clean."""
    for name in (RECOVERY_POINT_FILE, HIGH_WATERMARK_FILE, CLEANER_FILE):
        with contextlib.suppress(CorruptFile):  # the broker does not use a damaged one either
            known = read_offsets(log_dir / name)
            if known.pop(place, None) is not None:
                write_offsets(log_dir / name, known)


def _check_empty(target: Path, stray: Stray, place: TopicPartition) -> None:
    if not any(path.stat().st_size for path in data_files(target)):
        return
    first, end = offsets_in(target)
    raise CannotRestore(
        f"{place} holds records already (offsets {first} to {end - 1}), and {stray.path.name} is not put over them: "
        f"create another topic with at least {place.partition + 1} partitions, stop the broker, and restore with "
        "--to TOPIC"
    )


def _move_back(stray: Stray, place: TopicPartition, target: Path) -> Restored:
    log_dir = stray.path.parent
    first, end = stray.offsets()
    new_owner = owner_of(target) if target.exists() else stray.topic_id
    adopted = new_owner != stray.topic_id
    if adopted:
        _reset_leader_epochs(stray.path, first)
        if new_owner is None:
            (stray.path / PARTITION_METADATA_FILE).unlink(missing_ok=True)
        else:
            write_topic_id(stray.path, new_owner)
    if target.exists():
        # The broker removes it at its next start, like every deleted log.
        target.rename(log_dir / marked_directory_name(place, DELETED_DIR_SUFFIX))
    _store_log_start(log_dir, place, first if first > offsets_in(stray.path)[0] else None)
    stray.path.rename(target)
    sync_directory(log_dir)
    (target / NOTE_FILE).unlink(missing_ok=True)
    return Restored(target, first, end, adopted)


def _reset_leader_epochs(directory: Path, first_offset: int) -> None:
    """Resets the leader epoch of every batch. The checksum of a batch does not cover its leader epoch."""
    for file, place in places_in(directory, os.O_RDWR):
        os.pwrite(file.fileno(), _EPOCH.pack(_FIRST_EPOCH), place.position + LEADER_EPOCH_AT)
    for path in data_files(directory):
        sync_file(path)
    write_epochs(directory / LEADER_EPOCH_FILE, [(_FIRST_EPOCH, first_offset)])


def _store_log_start(log_dir: Path, place: TopicPartition, first_offset: int | None) -> None:
    """Stores the log start offset, so that deleted records at the beginning of the first segment stay deleted."""
    starts = read_offsets(log_dir / LOG_START_FILE)
    after = {name: offset for name, offset in starts.items() if name != place}
    if first_offset is not None:
        after[place] = first_offset
    if after != starts:
        write_offsets(log_dir / LOG_START_FILE, after)


def _copy_batches(stray: Stray, place: TopicPartition, target: Path) -> Restored:
    found = _whole_batches(stray)
    if not found:
        raise CannotRestore(f"{stray.path.name} holds no whole batch: there is no record to restore")
    first, end = found[0][0].base_offset, found[-1][-1].next_offset
    empty = [path for path in target.iterdir() if path.name.startswith(tuple(p.stem for p in data_files(target)))]
    for batches in found:
        data = bytearray()
        for batch in batches:
            start = len(data)
            data += batch.data
            _EPOCH.pack_into(data, start + LEADER_EPOCH_AT, _FIRST_EPOCH)
        path = target / (file_stem(batches[0].base_offset) + LOG_SUFFIX)
        write_small_file(path, bytes(data))
        empty = [one for one in empty if one != path]
    for path in empty:
        path.unlink()
    write_epochs(target / LEADER_EPOCH_FILE, [(_FIRST_EPOCH, first)])
    _store_log_start(stray.path.parent, place, None)
    return Restored(target, first, end, adopted=True)


def _whole_batches(stray: Stray) -> list[list[BatchView]]:
    """The whole batches of each file in rising order of offsets. Skips batches out of order, which are damaged."""
    found: list[list[BatchView]] = []
    expected = -1
    for file in stray.cut_files():
        kept = []
        for batch in good_batches(memoryview(file.read_bytes())):
            if batch.base_offset >= expected:
                kept.append(batch)
                expected = batch.next_offset
        if kept:
            found.append(kept)
    return found
