"""The handlers of cluster administration, in one list for `broker.wiring`."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from headrace.config import BrokerConfig
from headrace.controller.gateway import ControllerGateway
from headrace.handlers.cluster.alter_partition import AlterPartition
from headrace.handlers.cluster.alter_partition_reassignments import AlterPartitionReassignments
from headrace.handlers.cluster.alter_replica_log_dirs import AlterReplicaLogDirs, MoveReplica
from headrace.handlers.cluster.assign_replicas_to_dirs import AssignReplicasToDirs
from headrace.handlers.cluster.broker_heartbeat import BrokerHeartbeat
from headrace.handlers.cluster.elect_leaders import ElectLeaders
from headrace.handlers.cluster.envelope import Envelope
from headrace.handlers.cluster.list_partition_reassignments import ListPartitionReassignments
from headrace.handlers.cluster.unregister_broker import UnregisterBroker
from headrace.handlers.cluster.update_features import UpdateFeatures
from headrace.handlers.configs.alter_client_quotas import AlterClientQuotas
from headrace.handlers.configs.alter_configs import AlterConfigs, CheckOwn
from headrace.handlers.configs.describe_client_quotas import DescribeClientQuotas
from headrace.handlers.configs.describe_configs import DescribeConfigs
from headrace.handlers.configs.incremental_alter_configs import IncrementalAlterConfigs
from headrace.handlers.configs.list_config_resources import ListConfigResources
from headrace.handlers.dispatch.authorization import OPEN, Authorization
from headrace.handlers.dispatch.handler import Handler
from headrace.handlers.dispatch.metering import Metering
from headrace.handlers.dispatch.table import HandlerTable
from headrace.handlers.security.alter_user_scram_credentials import AlterUserScramCredentials
from headrace.handlers.security.create_acls import CreateAcls
from headrace.handlers.security.delegation_tokens import (
    CreateDelegationToken,
    DescribeDelegationToken,
    ExpireDelegationToken,
    RenewDelegationToken,
)
from headrace.handlers.security.delete_acls import DeleteAcls
from headrace.handlers.security.describe_acls import DescribeAcls
from headrace.handlers.security.describe_user_scram_credentials import DescribeUserScramCredentials
from headrace.handlers.topics.create_partitions import CreatePartitions
from headrace.handlers.topics.create_topics import CreateTopics
from headrace.handlers.topics.delete_topics import DeleteTopics
from headrace.handlers.transactions.allocate_producer_ids import AllocateProducerIds


def _nothing_to_check(changes: Mapping[str, str]) -> None:
    """For a broker whose settings name no files."""


def control_plane_handlers(
    gateway: ControllerGateway,
    table: HandlerTable,
    config: Callable[[], BrokerConfig],
    broker_id: int,
    move_replica: MoveReplica,
    metering: Metering | None = None,
    authorization: Authorization = OPEN,
    check_own: CheckOwn = _nothing_to_check,
) -> list[Handler]:
    """`table` is the table of handlers: Envelope looks up its inner requests there."""
    view, controller = gateway.view, gateway.controller
    metering = metering or Metering()
    has_authorizer = not authorization.is_open
    return [
        CreateTopics(gateway, config, metering),
        DeleteTopics(gateway, metering),
        CreatePartitions(gateway, metering),
        DescribeConfigs(view, config, broker_id),
        AlterConfigs(gateway, broker_id, check_own),
        IncrementalAlterConfigs(gateway, broker_id, check_own),
        ListConfigResources(view),
        ElectLeaders(gateway),
        AlterPartitionReassignments(gateway),
        ListPartitionReassignments(view),
        AlterReplicaLogDirs(move_replica),
        UpdateFeatures(gateway),
        DescribeClientQuotas(view),
        AlterClientQuotas(gateway),
        DescribeUserScramCredentials(view),
        AlterUserScramCredentials(gateway),
        CreateDelegationToken(gateway),
        RenewDelegationToken(gateway),
        ExpireDelegationToken(gateway),
        DescribeDelegationToken(view, controller),
        DescribeAcls(view, has_authorizer),
        CreateAcls(gateway, has_authorizer),
        DeleteAcls(gateway, has_authorizer),
        UnregisterBroker(gateway),
        AlterPartition(controller, view),
        AllocateProducerIds(controller),
        BrokerHeartbeat(controller, view),
        AssignReplicasToDirs(controller, view),
        Envelope(controller, table, authorization),
    ]
