"""Finishes a replacement of segments that a crash interrupted.

Compaction writes new segments as `.cleaned`, renames them to `.swap` once they are complete and synced, removes the old
ones, and drops the suffix. So recovery deletes `.cleaned` files, and `.swap` files replace the segments in their range.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from headrace.kernel.errors import Fault
from headrace.storage.files import (
    CLEANED_SUFFIX,
    DELETED_SUFFIX,
    LOG_SUFFIX,
    SWAP_SUFFIX,
    offset_of_file,
    sync_directory,
)
from headrace.storage.segment.segment import Segment


def complete_swaps(directory: Path) -> None:
    # A start calls this for every log and nearly none has anything to finish, so it lists the names once.
    names = [entry.name for entry in os.scandir(directory)]
    swaps = sorted(name for name in names if name.endswith(LOG_SUFFIX + SWAP_SUFFIX))
    if not swaps:
        return
    # If a replacement has several files, it is complete only when none of them is still `.cleaned`.
    cleaned = [offset_of_file(name) for name in names if name.endswith(LOG_SUFFIX + CLEANED_SUFFIX)]
    first_unfinished = min((offset for offset in cleaned if offset is not None), default=None)
    for name in swaps:
        base_offset = offset_of_file(name)
        if base_offset is None:
            continue
        if first_unfinished is not None and base_offset >= first_unfinished:
            for leftover in directory.glob(name.partition(".")[0] + ".*" + SWAP_SUFFIX):
                leftover.unlink()
            continue
        _complete(directory, base_offset)
    sync_directory(directory)


def _complete(directory: Path, base_offset: int) -> None:
    swap = Segment.load(directory, base_offset, suffix=SWAP_SUFFIX)
    end = base_offset
    with contextlib.suppress(Fault):
        for place in swap.places():
            end = place.last_offset + 1
    for path in directory.glob("*" + LOG_SUFFIX):
        covered = offset_of_file(path.name)
        if covered is not None and base_offset <= covered < max(end, base_offset + 1):
            for old in Segment.load(directory, covered).files:
                old.unlink(missing_ok=True)
    swap.close()
    swap.change_suffix(SWAP_SUFFIX, "")
    for stale in directory.glob("*" + DELETED_SUFFIX):
        stale.unlink()
