"""The handlers of cluster administration, in one list for whoever puts a broker together."""

from __future__ import annotations

from collections.abc import Callable

from headrace.config import BrokerConfig
from headrace.controller.gateway import ControllerGateway
from headrace.handlers.allocate_producer_ids import AllocateProducerIds
from headrace.handlers.alter_client_quotas import AlterClientQuotas
from headrace.handlers.alter_configs import AlterConfigs
from headrace.handlers.alter_partition import AlterPartition
from headrace.handlers.alter_partition_reassignments import AlterPartitionReassignments
from headrace.handlers.alter_replica_log_dirs import AlterReplicaLogDirs, DirectoryOf
from headrace.handlers.assign_replicas_to_dirs import AssignReplicasToDirs
from headrace.handlers.broker_heartbeat import BrokerHeartbeat
from headrace.handlers.create_acls import CreateAcls
from headrace.handlers.create_partitions import CreatePartitions
from headrace.handlers.create_topics import CreateTopics
from headrace.handlers.delete_acls import DeleteAcls
from headrace.handlers.delete_topics import DeleteTopics
from headrace.handlers.describe_acls import DescribeAcls
from headrace.handlers.describe_client_quotas import DescribeClientQuotas
from headrace.handlers.describe_configs import DescribeConfigs
from headrace.handlers.elect_leaders import ElectLeaders
from headrace.handlers.envelope import Envelope
from headrace.handlers.incremental_alter_configs import IncrementalAlterConfigs
from headrace.handlers.list_config_resources import ListConfigResources
from headrace.handlers.list_partition_reassignments import ListPartitionReassignments
from headrace.handlers.metering import Metering
from headrace.handlers.table import Handler, HandlerTable
from headrace.handlers.unregister_broker import UnregisterBroker
from headrace.handlers.update_features import UpdateFeatures


def control_plane_handlers(
    gateway: ControllerGateway,
    table: HandlerTable,
    config: Callable[[], BrokerConfig],
    broker_id: int,
    directory_of: DirectoryOf,
    metering: Metering | None = None,
) -> list[Handler]:
    """`table` is the one they will be in: the envelope looks its inner requests up there."""
    view, controller = gateway.view, gateway.controller
    metering = metering or Metering()
    return [
        CreateTopics(gateway, config, metering),
        DeleteTopics(gateway, metering),
        CreatePartitions(gateway, metering),
        DescribeConfigs(view, config, broker_id),
        AlterConfigs(gateway, broker_id),
        IncrementalAlterConfigs(gateway, broker_id),
        ListConfigResources(view),
        ElectLeaders(gateway),
        AlterPartitionReassignments(gateway),
        ListPartitionReassignments(view),
        AlterReplicaLogDirs(config, directory_of),
        UpdateFeatures(gateway),
        DescribeClientQuotas(view),
        AlterClientQuotas(gateway),
        DescribeAcls(),
        CreateAcls(),
        DeleteAcls(),
        UnregisterBroker(gateway),
        AlterPartition(controller, view),
        AllocateProducerIds(controller),
        BrokerHeartbeat(controller, view),
        AssignReplicasToDirs(controller, view),
        Envelope(controller, table),
    ]
