"""The handlers of the data plane, and of requests that are answered from the image."""

from __future__ import annotations

from headrace.broker.auto_creation import TopicCreation
from headrace.cluster.view import ClusterView
from headrace.config import BrokerConfig
from headrace.coordinators.txn.verification import TransactionVerification
from headrace.handlers.cluster.describe_cluster import DescribeCluster
from headrace.handlers.cluster.describe_log_dirs import DescribeLogDirs
from headrace.handlers.cluster.describe_quorum import DescribeQuorum
from headrace.handlers.data.current_leaders import Leaders
from headrace.handlers.data.delete_records import DeleteRecords
from headrace.handlers.data.fetch import Fetch
from headrace.handlers.data.fetch_sessions import FetchSessions
from headrace.handlers.data.list_offsets import ListOffsets
from headrace.handlers.data.offset_for_leader_epoch import OffsetForLeaderEpoch
from headrace.handlers.data.produce import Produce
from headrace.handlers.data.registry_schemas import RegistrySchemas
from headrace.handlers.data.schema_guard import SchemaGuard
from headrace.handlers.data.transaction_guard import TransactionGuard
from headrace.handlers.dispatch.handler import Handler
from headrace.handlers.dispatch.metering import Metering
from headrace.handlers.security.sasl_authenticate import SaslAuthenticate
from headrace.handlers.security.sasl_handshake import SaslHandshake
from headrace.handlers.topics.describe_topic_partitions import DescribeTopicPartitions
from headrace.handlers.topics.metadata import Metadata
from headrace.handlers.transactions.describe_producers import DescribeProducers
from headrace.kernel.clock import Clock
from headrace.replication.partitions import Partitions
from headrace.storage.dirs.log_dirs import LogDirs


def _schema_source(config: BrokerConfig) -> RegistrySchemas | None:
    url = config.schema_registry_url or config.registry_listen
    if not url:
        return None
    return RegistrySchemas(url, config.schema_registry_user_info, config.schema_registry_ca_location)


def data_handlers(
    config: BrokerConfig,
    view: ClusterView,
    partitions: Partitions,
    log_dirs: LogDirs,
    creation: TopicCreation,
    verification: TransactionVerification,
    metering: Metering,
    clock: Clock,
) -> list[Handler]:
    leaders = Leaders(view)
    sessions = FetchSessions(config.max_incremental_fetch_session_cache_slots)
    partitions.subscribe(lambda one: sessions.leads_more(clock.monotonic_ms()) if one.is_leader else None)
    return [
        Produce(
            partitions,
            leaders,
            TransactionGuard(partitions, verification),
            SchemaGuard(view, _schema_source(config)),
            metering,
        ),
        Fetch(partitions, leaders, sessions, config.fetch_max_bytes, metering, clock),
        ListOffsets(partitions),
        OffsetForLeaderEpoch(partitions),
        DeleteRecords(partitions),
        Metadata(view, creation),
        DescribeTopicPartitions(view, config.max_request_partition_size_limit),
        DescribeCluster(view),
        DescribeProducers(partitions),
        DescribeQuorum(partitions, lambda: view.current),
        DescribeLogDirs(log_dirs),
        SaslHandshake(),
        SaslAuthenticate(),
    ]
