"""How a follower comes to agree with its leader, and what it does with each answer.

Every fetch names the epoch of the last record the follower holds. The leader answers with records only when its own log
agrees up to there; otherwise it says where the two leave each other and the follower cuts its log and asks again.

The easy way is to cut at the high watermark when the leader changes. It loses data twice over: the mark reaches
followers one fetch late, so a follower that became leader with an old mark makes the others cut acknowledged records,
and two logs may differ *below* it after a double failure (KIP-101, KIP-279). So the mark decides nothing here.

Pure: an answer and a few numbers of our log in, a `Step` out. The fetcher carries steps out in order.
"""

from __future__ import annotations

from enum import Enum, auto

from headrace.kernel.dataclass import dataclass
from headrace.replication.core.leader import UNDEFINED_OFFSET, EpochEnd


class Action(Enum):
    APPEND = auto()  # take the records, then mark and log start
    TRUNCATE = auto()  # cut the log at `offset`, then fetch again
    START_OVER = auto()  # the leader no longer has what comes next: begin an empty log at its log start
    RETRY_LATER = auto()  # a passing error: back off
    STOP = auto()  # our view of the leadership is old or ahead: wait for the image (and back off)


@dataclass(frozen=True, slots=True)
class Step:
    action: Action
    offset: int = -1


def truncation_point(leader: EpochEnd, own: EpochEnd, log_end: int) -> int:
    """Where to cut when the leader answered `leader`; `own` is our log's answer for the leader's epoch.

    When we know that epoch too, both ended it somewhere: the shorter end is common. When we only know an earlier one,
    everything after *its* end is foreign, and the next fetch asks again from there.
    """
    if own.end_offset == UNDEFINED_OFFSET:
        # Nothing of ours is as old as what the leader has left of its history.
        return min(leader.end_offset, log_end)
    if own.epoch == leader.epoch:
        return min(leader.end_offset, own.end_offset, log_end)
    return min(own.end_offset, log_end)


def follower_high_watermark(leader_high_watermark: int, log_end: int) -> int:
    """A follower knows of no commit beyond what it holds itself."""
    return min(leader_high_watermark, log_end)


def follower_log_start(leader_log_start: int, own_log_start: int, high_watermark: int) -> int:
    """Deleted records leave followers too, but never records that are not known to be committed here."""
    return max(own_log_start, min(leader_log_start, high_watermark))
