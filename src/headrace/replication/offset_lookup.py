"""ListOffsets for one partition: special timestamps, and which offsets are allowed right after an election."""

from __future__ import annotations

from typing import Final, NamedTuple

from headrace.kernel.isolation import READ_COMMITTED
from headrace.replication.core.isr import InSyncReplicas
from headrace.replication.core.leader import check_latest_offset_known
from headrace.storage.log import Log

LATEST: Final = -1
EARLIEST: Final = -2
MAX_TIMESTAMP: Final = -3
EARLIEST_LOCAL: Final = -4
LATEST_TIERED: Final = -5
EARLIEST_PENDING_UPLOAD: Final = -6


class OffsetAt(NamedTuple):
    offset: int
    timestamp_ms: int
    leader_epoch: int


NO_OFFSET: Final = OffsetAt(-1, -1, -1)


def offset_for(
    log: Log, isr: InSyncReplicas | None, leader_epoch: int, timestamp: int, isolation: int | None
) -> OffsetAt:
    """The first offset at or after `timestamp` that the client may see, or `NO_OFFSET`. `isolation` is None for
    replicas and for clients that inspect this replica in any role; in the latter case there is no `isr`.
    """
    assert isr is not None or isolation is None, "clients ask leaders"
    if isolation is None:
        last = log.log_end_offset
    else:
        last = log.last_stable_offset if isolation == READ_COMMITTED else log.high_watermark
    if timestamp == LATEST:
        if isr is not None and isolation is not None:
            check_latest_offset_known(isr.high_watermark, isr.epoch_start)
        return OffsetAt(last, -1, leader_epoch)
    if timestamp in (EARLIEST, EARLIEST_LOCAL):
        start = log.log_start_offset
        return OffsetAt(start, -1, log.leader_epochs.epoch_of(start))
    if timestamp in (LATEST_TIERED, EARLIEST_PENDING_UPLOAD):
        return NO_OFFSET  # there is no remote tier
    found = log.offset_of_max_timestamp() if timestamp == MAX_TIMESTAMP else log.offset_for_timestamp(timestamp)
    if found is not None and found.offset < last:
        return OffsetAt(found.offset, found.timestamp_ms, found.leader_epoch)
    if isr is not None and isolation is not None and found is not None:
        check_latest_offset_known(isr.high_watermark, isr.epoch_start)
    return NO_OFFSET
