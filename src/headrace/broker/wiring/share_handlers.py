"""The handlers of share groups."""

from __future__ import annotations

from headrace.broker.wiring.shares import Shares
from headrace.cluster.view import ClusterView
from headrace.coordinators.group.coordinator import GroupCoordinator
from headrace.handlers.dispatch.handler import Handler
from headrace.handlers.shares.share_acknowledge import ShareAcknowledge
from headrace.handlers.shares.share_answers import ShareRequests
from headrace.handlers.shares.share_fetch import ShareFetch
from headrace.handlers.shares.share_group_describe import ShareGroupDescribe
from headrace.handlers.shares.share_group_heartbeat import ShareGroupHeartbeat
from headrace.handlers.shares.share_group_offsets import (
    AlterShareGroupOffsets,
    DeleteShareGroupOffsets,
    DescribeShareGroupOffsets,
)
from headrace.handlers.shares.share_group_state import (
    DeleteShareGroupState,
    InitializeShareGroupState,
    ReadShareGroupState,
    ReadShareGroupStateSummary,
    WriteShareGroupState,
)


def share_handlers(shares: Shares, groups: GroupCoordinator, view: ClusterView) -> list[Handler]:
    requests = ShareRequests(shares.consumption, view)
    return [
        ShareGroupHeartbeat(shares.membership),
        ShareGroupDescribe(groups, view),
        ShareFetch(requests),
        ShareAcknowledge(requests),
        InitializeShareGroupState(shares.states),
        ReadShareGroupState(shares.states),
        WriteShareGroupState(shares.states),
        DeleteShareGroupState(shares.states),
        ReadShareGroupStateSummary(shares.states),
        DescribeShareGroupOffsets(shares.administration, view),
        AlterShareGroupOffsets(shares.administration, view),
        DeleteShareGroupOffsets(shares.administration, view),
    ]
