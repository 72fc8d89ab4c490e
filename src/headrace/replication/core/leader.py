"""What a leader (or a follower that serves consumers) checks before it answers a fetch, and how far a reader may read.

Pure functions that handlers, partition and simulation share:
leader epochs (KIP-320), divergence of a follower's log (KIP-101, KIP-279, KIP-595), the latest offset that ListOffsets
may return after an election (KIP-207), the replica that a consumer should read from (KIP-392).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from headrace.kernel.errors import (
    ErrorCode,
    FencedLeaderEpoch,
    NotLeader,
    OffsetOutOfRange,
    Refused,
    UnknownLeaderEpoch,
)

NO_EPOCH: Final = -1
UNDEFINED_OFFSET: Final = -1


class EpochEnd(NamedTuple):
    """The largest epoch in the log at or below the requested one, and its end offset."""

    epoch: int
    end_offset: int


def check_leader_epoch(asked: int, current: int) -> None:
    """Checks the leader epoch of a request: a lower one is fenced, a higher one is not known here yet."""
    if asked in (current, NO_EPOCH):
        return
    if asked < current:
        raise FencedLeaderEpoch(f"leader epoch {asked} is over: the partition is at {current}")
    raise UnknownLeaderEpoch(f"leader epoch {asked} is not known here yet: the partition is at {current}")


def not_led_here(topic: str, index: int, leader: int) -> NotLeader:
    who = f"is led by broker {leader}, not by this one" if leader >= 0 else "has no leader at the moment"
    return NotLeader(f"{topic}-{index} {who}")


def divergence(fetch_offset: int, last_fetched_epoch: int, end: EpochEnd) -> EpochEnd | None:
    """Where the follower's log diverges from the leader's, or None if it agrees up to `fetch_offset`.

    `end` is the leader's answer for `last_fetched_epoch`. The follower diverged if it has more of that epoch than the
    leader, or if the leader does not have that epoch (then `end` names an earlier one).
    """
    if last_fetched_epoch == NO_EPOCH:
        return None
    if end.epoch == NO_EPOCH or end.end_offset == UNDEFINED_OFFSET:
        raise OffsetOutOfRange(
            f"no epoch up to {last_fetched_epoch} is known here, so offset {fetch_offset} is nowhere"
        )
    if end.epoch < last_fetched_epoch or end.end_offset < fetch_offset:
        return end
    return None


def check_latest_offset_known(high_watermark: int, epoch_start: int) -> None:
    """Raises while the high watermark of a new leader is below its epoch start: ListOffsets must not return an offset
    below an earlier answer (KIP-207).
    """
    if high_watermark < epoch_start:
        raise Refused(
            ErrorCode.offset_not_available,
            f"high watermark {high_watermark} is still below the new leader's first offset {epoch_start}: try again",
        )


class ReadableReplica(NamedTuple):
    broker: int
    rack: str | None
    log_start: int
    log_end: int
    caught_up_at_ms: int


def preferred_read_replica(
    leader: int, client_rack: str | None, offset: int, replicas: Mapping[int, ReadableReplica]
) -> int:
    """The most caught-up replica in the client's rack that has `offset`, otherwise the leader."""
    if not client_rack:
        return leader
    near = [r for r in replicas.values() if r.rack == client_rack and r.log_start <= offset <= r.log_end]
    if not near or any(r.broker == leader for r in near):
        return leader
    return max(near, key=lambda r: (r.log_end, r.caught_up_at_ms, -r.broker)).broker
