"""Replaces batches whose records cannot be read by empty ones. A command of the operator while the broker is stopped.

An empty batch is a header with the same offsets, timestamps, producer and sequence numbers, without records, as
compaction writes it. Consumers skip it; offsets and producer state do not change. The steps, safe against a crash after
each:

1. the bytes of the batches are copied into a stray (kind `cut`), with a note, and synced;
2. the new segment is written as a `.tmp` file, and synced; the next start deletes such a file;
3. the indexes of the segment are deleted: their positions belong to the old file, and a start rebuilds missing ones;
4. the new file takes the name of the old one;
5. the indexes are rebuilt.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from headrace.kernel.ids import TopicPartition
from headrace.kernel.plurals import counted
from headrace.records.batch import batches
from headrace.records.raw import rebuilt
from headrace.storage.dirs.checkpoints import read_topic_id
from headrace.storage.dirs.strays import CUT_SUFFIX, StrayKind, StrayNote, cluster_id_of, write_note
from headrace.storage.files import HINT_SUFFIXES, STRAY_DIR_SUFFIX, marked_directory_name, sync_directory
from headrace.storage.recovery.inspection import UnreadablePlace, segments_in
from headrace.storage.recovery.segment_check import repair_hints

_TMP_SUFFIX: Final = ".tmp"


def remove_unreadable(
    directory: Path, partition: TopicPartition, places: Sequence[UnreadablePlace], now_ms: int
) -> Path:
    """Empties the batches at `places`, which `inspection.verify` found in `directory`. Returns the stray with the old
    bytes.
    """
    stray = _keep(directory, partition, places, now_ms)
    for path in sorted({place.path for place in places}):
        _write_anew(path, {place.position for place in places if place.path == path})
    segments = segments_in(directory)
    for at, segment in enumerate(segments):
        if any(place.path == segment.path for place in places):
            repair_hints(segment, segments[:at])
    for segment in segments:
        segment.close()
    sync_directory(directory)
    return stray


def _keep(directory: Path, partition: TopicPartition, places: Sequence[UnreadablePlace], now_ms: int) -> Path:
    log_dir = directory.parent
    stray = log_dir / marked_directory_name(partition, STRAY_DIR_SUFFIX)
    stray.mkdir()
    first = min((place.fault for place in places), key=lambda fault: fault.base_offset)
    more = f" (and {counted(len(places) - 1, 'more batch', 'more batches')})" if len(places) > 1 else ""
    why = f"headrace log skip took it out of the log: {first.message}{more}"
    topic_id, cluster_id = read_topic_id(directory), cluster_id_of(log_dir)
    write_note(stray, StrayNote(StrayKind.CUT, *partition, topic_id, cluster_id, now_ms, why, first.base_offset, None))
    for place in places:
        with place.path.open("rb") as source:
            source.seek(place.position)
            data = source.read(place.fault.size_bytes)
        _write_synced(stray / f"{place.path.name}.{place.position:010d}{CUT_SUFFIX}", [data])
    sync_directory(stray)
    sync_directory(log_dir)
    return stray


def _write_anew(path: Path, positions: set[int]) -> None:
    pieces: list[bytes | memoryview] = []
    copied_to = 0
    data = memoryview(path.read_bytes())
    for batch in batches(data):
        if batch.position in positions:
            pieces += [data[copied_to : batch.position], rebuilt(batch, None, (), None)]
            copied_to = batch.position + batch.size_bytes
    new = path.with_name(path.name + _TMP_SUFFIX)
    _write_synced(new, [*pieces, data[copied_to:]])
    for suffix in HINT_SUFFIXES:
        path.with_suffix(suffix).unlink(missing_ok=True)
    sync_directory(path.parent)
    new.replace(path)
    sync_directory(path.parent)


def _write_synced(path: Path, pieces: Sequence[bytes | memoryview]) -> None:
    with path.open("wb") as target:
        target.writelines(pieces)
        target.flush()
        os.fsync(target.fileno())
