"""Configuration values that groups depend on, under Kafka's names."""

from __future__ import annotations

from headrace.config.attributes import BrokerAttributes
from headrace.kernel.dataclass import dataclass
from headrace.records.compression import Codec


@dataclass(frozen=True, slots=True)
class GroupSettings:
    """Defaults are Kafka 4.3's."""

    # Classic groups: group.min.session.timeout.ms, group.max.session.timeout.ms, group.initial.rebalance.delay.ms,
    # group.max.size; a member that was added may take this long until its first generation begins.
    min_session_timeout_ms: int = 6_000
    max_session_timeout_ms: int = 1_800_000
    initial_rebalance_delay_ms: int = 3_000
    max_size: int = 2_147_483_647
    new_member_join_timeout_ms: int = 300_000

    # How long a write may take to be committed (offsets.commit.timeout.ms).
    write_timeout_ms: int = 5_000
    # How the log is written and read back (offsets.topic.compression.codec, offsets.load.buffer.size).
    codec: Codec = Codec.NONE
    load_bytes: int = 5_242_880

    # Offsets: offset.metadata.max.bytes, offsets.retention.minutes, offsets.retention.check.interval.ms.
    offset_metadata_max_bytes: int = 4_096
    offsets_retention_ms: int = 7 * 24 * 3_600_000
    offsets_retention_check_interval_ms: int = 600_000

    # Consumer groups (KIP-848): group.consumer.*
    consumer_session_timeout_ms: int = 45_000
    consumer_heartbeat_interval_ms: int = 5_000
    consumer_assignment_interval_ms: int = 1_000
    consumer_max_size: int = 2_147_483_647
    consumer_assignors: tuple[str, ...] = ("uniform", "range")
    consumer_migration_policy: str = "bidirectional"

    # Share groups (KIP-932): group.share.*
    share_session_timeout_ms: int = 45_000
    share_heartbeat_ms: int = 5_000
    share_assignment_interval_ms: int = 1_000
    share_max_size: int = 200

    # Streams groups (KIP-1071): group.streams.*
    streams_session_timeout_ms: int = 45_000
    streams_heartbeat_interval_ms: int = 5_000
    streams_assignment_interval_ms: int = 1_000
    streams_max_size: int = 2_147_483_647
    streams_num_standby_replicas: int = 0
    streams_initial_rebalance_delay_ms: int = 3_000

    # Whether the broker offers streams groups (group.coordinator.rebalance.protocols).
    offers_streams: bool = True

    @classmethod
    def from_config(cls, config: BrokerAttributes) -> GroupSettings:
        return cls(
            min_session_timeout_ms=config.group_min_session_timeout_ms,
            max_session_timeout_ms=config.group_max_session_timeout_ms,
            initial_rebalance_delay_ms=config.group_initial_rebalance_delay_ms,
            max_size=config.group_max_size,
            write_timeout_ms=config.offsets_commit_timeout_ms,
            codec=Codec(config.offsets_topic_compression_codec),
            load_bytes=config.offsets_load_buffer_size,
            offset_metadata_max_bytes=config.offset_metadata_max_bytes,
            offsets_retention_ms=config.offsets_retention_minutes * 60_000,
            offsets_retention_check_interval_ms=config.offsets_retention_check_interval_ms,
            consumer_session_timeout_ms=config.group_consumer_session_timeout_ms,
            consumer_heartbeat_interval_ms=config.group_consumer_heartbeat_interval_ms,
            consumer_assignment_interval_ms=config.group_consumer_assignment_interval_ms,
            consumer_max_size=config.group_consumer_max_size,
            consumer_assignors=tuple(dict.fromkeys(_short_name(name) for name in config.group_consumer_assignors)),
            share_session_timeout_ms=config.group_share_session_timeout_ms,
            share_heartbeat_ms=config.group_share_heartbeat_interval_ms,
            share_assignment_interval_ms=config.group_share_assignment_interval_ms,
            share_max_size=config.group_share_max_size,
            streams_session_timeout_ms=config.group_streams_session_timeout_ms,
            streams_heartbeat_interval_ms=config.group_streams_heartbeat_interval_ms,
            streams_assignment_interval_ms=config.group_streams_assignment_interval_ms,
            streams_max_size=config.group_streams_max_size,
            streams_num_standby_replicas=config.group_streams_num_standby_replicas,
            streams_initial_rebalance_delay_ms=config.group_streams_initial_rebalance_delay_ms,
            offers_streams="streams" in config.group_coordinator_rebalance_protocols,
            consumer_migration_policy=config.group_consumer_migration_policy.lower(),
        )

    @property
    def may_upgrade(self) -> bool:
        return self.consumer_migration_policy in ("bidirectional", "upgrade")

    @property
    def may_downgrade(self) -> bool:
        return self.consumer_migration_policy in ("bidirectional", "downgrade")


def _short_name(assignor: str) -> str:
    """As in Kafka, a class name is valid for its own assignors: `….UniformAssignor` is `uniform`."""
    return assignor.rpartition(".")[2].removesuffix("Assignor").lower()
