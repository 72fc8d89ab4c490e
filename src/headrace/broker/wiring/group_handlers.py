"""The handlers of groups, their offsets and their coordinators."""

from __future__ import annotations

from headrace.broker.auto_creation import TopicCreation
from headrace.cluster.view import ClusterView
from headrace.coordinators.group.coordinator import GroupCoordinator
from headrace.coordinators.share.administration import ShareAdministration
from headrace.coordinators.txn.verification import TransactionVerification
from headrace.handlers.dispatch.handler import Handler
from headrace.handlers.groups.consumer_group_describe import ConsumerGroupDescribe
from headrace.handlers.groups.consumer_group_heartbeat import ConsumerGroupHeartbeat
from headrace.handlers.groups.delete_groups import DeleteGroups
from headrace.handlers.groups.describe_groups import DescribeGroups
from headrace.handlers.groups.find_coordinator import FindCoordinator, OwnLease
from headrace.handlers.groups.heartbeat import Heartbeat
from headrace.handlers.groups.join_group import JoinGroup
from headrace.handlers.groups.leave_group import LeaveGroup
from headrace.handlers.groups.list_groups import ListGroups
from headrace.handlers.groups.offset_commit import OffsetCommit
from headrace.handlers.groups.offset_delete import OffsetDelete
from headrace.handlers.groups.offset_fetch import OffsetFetch
from headrace.handlers.groups.streams_group_describe import StreamsGroupDescribe
from headrace.handlers.groups.streams_group_heartbeat import StreamsGroupHeartbeat
from headrace.handlers.groups.streams_internal_topics import StreamsInternalTopics
from headrace.handlers.groups.sync_group import SyncGroup
from headrace.handlers.transactions.txn_offset_commit import TxnOffsetCommit


def group_handlers(
    groups: GroupCoordinator,
    verification: TransactionVerification,
    shares: ShareAdministration,
    view: ClusterView,
    creation: TopicCreation,
    streams_topics: StreamsInternalTopics,
    own: OwnLease,
) -> list[Handler]:
    return [
        FindCoordinator(view, creation, own),
        JoinGroup(groups),
        SyncGroup(groups),
        Heartbeat(groups),
        LeaveGroup(groups),
        OffsetCommit(groups, view),
        OffsetFetch(groups, view),
        OffsetDelete(groups, view),
        TxnOffsetCommit(groups, verification, view),
        DescribeGroups(groups),
        ListGroups(groups),
        DeleteGroups(groups, shares),
        ConsumerGroupHeartbeat(groups),
        ConsumerGroupDescribe(groups, view),
        StreamsGroupHeartbeat(groups, streams_topics),
        StreamsGroupDescribe(groups),
    ]
