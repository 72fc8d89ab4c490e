"""The handlers of groups, their offsets and their coordinators."""

from __future__ import annotations

from headrace.broker.auto_creation import TopicCreation
from headrace.broker.coordinators import Coordinators
from headrace.broker.share_handlers import share_handlers
from headrace.cluster.view import ClusterView
from headrace.handlers.consumer_group_describe import ConsumerGroupDescribe
from headrace.handlers.consumer_group_heartbeat import ConsumerGroupHeartbeat
from headrace.handlers.delete_groups import DeleteGroups
from headrace.handlers.describe_groups import DescribeGroups
from headrace.handlers.find_coordinator import FindCoordinator
from headrace.handlers.heartbeat import Heartbeat
from headrace.handlers.join_group import JoinGroup
from headrace.handlers.leave_group import LeaveGroup
from headrace.handlers.list_groups import ListGroups
from headrace.handlers.offset_commit import OffsetCommit
from headrace.handlers.offset_delete import OffsetDelete
from headrace.handlers.offset_fetch import OffsetFetch
from headrace.handlers.sync_group import SyncGroup
from headrace.handlers.table import AnyHandler
from headrace.handlers.txn_offset_commit import TxnOffsetCommit


def group_handlers(coordinators: Coordinators, view: ClusterView, creation: TopicCreation) -> list[AnyHandler]:
    groups = coordinators.groups
    return [
        FindCoordinator(view, creation),
        JoinGroup(groups),
        SyncGroup(groups),
        Heartbeat(groups),
        LeaveGroup(groups),
        OffsetCommit(groups, view),
        OffsetFetch(groups, view),
        OffsetDelete(groups, view),
        TxnOffsetCommit(groups, coordinators.verification, view),
        DescribeGroups(groups),
        ListGroups(groups),
        DeleteGroups(groups),
        ConsumerGroupHeartbeat(groups),
        ConsumerGroupDescribe(groups, view),
        *share_handlers(coordinators.shares, groups, view),
    ]
