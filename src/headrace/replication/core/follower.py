"""How a follower truncates its log to agree with the leader, and what it does with each fetch response.

Every fetch names the epoch of the follower's last record. The leader returns records only if its own log agrees up to
there. Otherwise it returns the point of divergence, and the follower truncates its log and fetches again.

The easy way is to truncate at the high watermark when the leader changes. That loses data in two cases. The high
watermark reaches followers one fetch late, so a follower that becomes leader with an old one makes the others truncate
acknowledged records. And two logs may differ *below* it after a double failure (KIP-101, KIP-279). So the high
watermark decides nothing here.

Pure: takes a response and a few offsets of the log, returns a `Step`. The fetcher executes steps in order.
"""

from __future__ import annotations

from enum import Enum, auto

from headrace.kernel.dataclass import dataclass
from headrace.replication.core.leader import UNDEFINED_OFFSET, EpochEnd


class Action(Enum):
    APPEND = auto()  # append the records, then update high watermark and log start
    TRUNCATE = auto()  # truncate the log at `offset`, then fetch again
    START_OVER = auto()  # the leader no longer has the next records: begin an empty log at its log start
    RETRY_LATER = auto()  # a temporary error: back off
    STOP = auto()  # leader and follower disagree about the leader epoch: wait for the image (and back off)


@dataclass(frozen=True, slots=True)
class Step:
    action: Action
    offset: int = -1


def truncation_point(leader: EpochEnd, own: EpochEnd, log_end: int) -> int:
    """Where to truncate after the leader's answer `leader`; `own` is this log's answer for the leader's epoch.

    If this log has that epoch too, the logs agree up to the smaller end. If it only has an earlier epoch, everything
    after the end of *that* epoch diverges, and the next fetch asks again from there.
    """
    if own.end_offset == UNDEFINED_OFFSET:
        # Every epoch in this log is newer than the leader's answer.
        return min(leader.end_offset, log_end)
    if own.epoch == leader.epoch:
        return min(leader.end_offset, own.end_offset, log_end)
    return min(own.end_offset, log_end)


def follower_high_watermark(leader_high_watermark: int, log_end: int) -> int:
    """The follower's high watermark: the leader's, but not above the follower's log end."""
    return min(leader_high_watermark, log_end)


def follower_log_start(leader_log_start: int, own_log_start: int, high_watermark: int) -> int:
    """The follower's log start: the leader's, but never above the follower's high watermark."""
    return max(own_log_start, min(leader_log_start, high_watermark))
