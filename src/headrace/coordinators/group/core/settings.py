"""The configuration that groups depend on, by the names that Kafka gives it."""

from __future__ import annotations

from typing import Any, Protocol

from headrace.kernel.dataclass import dataclass
from headrace.records.compression import Codec


class TypedValues(Protocol):
    def __getitem__(self, name: str, /) -> Any: ...


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

    @classmethod
    def from_config(cls, config: TypedValues) -> GroupSettings:
        """`config` gives typed values by Kafka's names (a BrokerConfig)."""
        return cls(
            min_session_timeout_ms=config["group.min.session.timeout.ms"],
            max_session_timeout_ms=config["group.max.session.timeout.ms"],
            initial_rebalance_delay_ms=config["group.initial.rebalance.delay.ms"],
            max_size=config["group.max.size"],
            write_timeout_ms=config["offsets.commit.timeout.ms"],
            codec=Codec(config["offsets.topic.compression.codec"]),
            load_bytes=config["offsets.load.buffer.size"],
            offset_metadata_max_bytes=config["offset.metadata.max.bytes"],
            offsets_retention_ms=config["offsets.retention.minutes"] * 60_000,
            offsets_retention_check_interval_ms=config["offsets.retention.check.interval.ms"],
            consumer_session_timeout_ms=config["group.consumer.session.timeout.ms"],
            consumer_heartbeat_interval_ms=config["group.consumer.heartbeat.interval.ms"],
            consumer_assignment_interval_ms=config["group.consumer.assignment.interval.ms"],
            consumer_max_size=config["group.consumer.max.size"],
            consumer_assignors=tuple(dict.fromkeys(_short_name(name) for name in config["group.consumer.assignors"])),
            share_session_timeout_ms=config["group.share.session.timeout.ms"],
            share_heartbeat_ms=config["group.share.heartbeat.interval.ms"],
            share_assignment_interval_ms=config["group.share.assignment.interval.ms"],
            share_max_size=config["group.share.max.size"],
            consumer_migration_policy=str(config["group.consumer.migration.policy"]).lower(),
        )

    @property
    def may_upgrade(self) -> bool:
        return self.consumer_migration_policy in ("bidirectional", "upgrade")

    @property
    def may_downgrade(self) -> bool:
        return self.consumer_migration_policy in ("bidirectional", "downgrade")


def _short_name(assignor: str) -> str:
    """Kafka lets its own assignors be named by their class, too: `….UniformAssignor` is `uniform`."""
    return assignor.rpartition(".")[2].removesuffix("Assignor").lower()
