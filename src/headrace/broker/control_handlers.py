"""The handlers of topics, configuration and everything else that the controller decides."""

from __future__ import annotations

from headrace.broker.live_config import LiveConfig
from headrace.cluster.view import ClusterView
from headrace.controller.gateway import ControllerGateway
from headrace.handlers.alter_configs import AlterConfigs
from headrace.handlers.create_partitions import CreatePartitions
from headrace.handlers.create_topics import CreateTopics
from headrace.handlers.delete_topics import DeleteTopics
from headrace.handlers.describe_configs import DescribeConfigs
from headrace.handlers.envelope import Envelope
from headrace.handlers.incremental_alter_configs import IncrementalAlterConfigs
from headrace.handlers.list_config_resources import ListConfigResources
from headrace.handlers.table import AnyHandler, HandlerTable


def control_handlers(
    gateway: ControllerGateway, config: LiveConfig, view: ClusterView, broker_id: int, table: HandlerTable
) -> list[AnyHandler]:
    return [
        CreateTopics(gateway, config),
        DeleteTopics(gateway),
        CreatePartitions(gateway),
        DescribeConfigs(view, config, broker_id),
        AlterConfigs(gateway),
        IncrementalAlterConfigs(gateway, broker_id),
        ListConfigResources(view),
        Envelope(gateway.controller, table),
    ]
