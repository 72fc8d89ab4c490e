"""The topic configuration that a log uses: typed, frozen, with Kafka's defaults."""

from __future__ import annotations

from dataclasses import field
from typing import Final

from headrace.config import TopicConfig
from headrace.kernel.dataclass import dataclass
from headrace.records.batch import TimestampType
from headrace.records.compression import Codec
from headrace.records.validation import UNBOUNDED_MS, BatchRules

DAY_MS: Final = 86_400_000
COMPACT: Final = "compact"
DELETE: Final = "delete"


@dataclass(frozen=True)
class LogConfig:
    segment_bytes: int = 1024 * 1024 * 1024
    segment_ms: int = 7 * DAY_MS
    segment_jitter_ms: int = 0
    segment_index_bytes: int = 10 * 1024 * 1024
    index_interval_bytes: int = 4096
    flush_messages: int = UNBOUNDED_MS
    flush_ms: int = UNBOUNDED_MS
    # Headrace only: sync a write before the broker acknowledges it.
    flush_before_ack: bool = False
    # Headrace only: read the records of a producer's batch before appending it.
    validate_records: bool = False
    retention_bytes: int = -1
    retention_ms: int = 7 * DAY_MS
    # Headrace only: the percentage of its disk that one partition may fill; 0 for no limit.
    retention_disk_percent: float = 0.0
    max_message_bytes: int = 1024 * 1024 + 12
    cleanup_policy: frozenset[str] = frozenset({DELETE})
    delete_retention_ms: int = DAY_MS
    file_delete_delay_ms: int = 60_000
    min_cleanable_dirty_ratio: float = 0.5
    min_compaction_lag_ms: int = 0
    max_compaction_lag_ms: int = UNBOUNDED_MS
    min_insync_replicas: int = 1
    # Headrace only as a topic setting; in Kafka only a broker setting.
    replica_lag_time_max_ms: int = 30_000
    unclean_leader_election_enable: bool = False
    compression_type: str = "producer"
    compression_gzip_level: int = -1
    compression_lz4_level: int = 9
    compression_zstd_level: int = 3
    message_timestamp_type: str = "CreateTime"
    message_timestamp_before_max_ms: int = UNBOUNDED_MS
    message_timestamp_after_max_ms: int = 3_600_000
    preallocate: bool = False
    rules: BatchRules = field(init=False, compare=False)
    # How long a segment stays active. The cleaner never compacts the active segment, so a compacted log rolls early
    # enough for max.compaction.lag.ms.
    roll_ms: int = field(init=False, compare=False)

    def __post_init__(self) -> None:
        is_bounded = self.is_compacted and self.max_compaction_lag_ms > 0
        roll_ms = min(self.segment_ms, self.max_compaction_lag_ms) if is_bounded else self.segment_ms
        object.__setattr__(self, "roll_ms", roll_ms)
        codec = None if self.compression_type == "producer" else Codec.from_name(self.compression_type)
        levels = {
            Codec.GZIP: self.compression_gzip_level,
            Codec.LZ4: self.compression_lz4_level,
            Codec.ZSTD: self.compression_zstd_level,
        }
        rules = BatchRules(
            keys_required=self.is_compacted,
            records_read=self.validate_records,
            timestamp_type=(
                TimestampType.LOG_APPEND_TIME
                if self.message_timestamp_type == "LogAppendTime"
                else TimestampType.CREATE_TIME
            ),
            timestamp_before_max_ms=self.message_timestamp_before_max_ms,
            timestamp_after_max_ms=self.message_timestamp_after_max_ms,
            codec=codec,
            level=levels.get(codec) if codec is not None else None,
        )
        object.__setattr__(self, "rules", rules)

    @property
    def is_compacted(self) -> bool:
        return COMPACT in self.cleanup_policy

    @property
    def deletes_old(self) -> bool:
        return DELETE in self.cleanup_policy

    @classmethod
    def from_topic_config(cls, topic: TopicConfig) -> LogConfig:
        """The topic's configuration already inherits from the broker's and from the defaults."""
        return cls(
            cleanup_policy=frozenset(word.strip() for word in topic.cleanup_policy),
            **{name: topic[key] for name, key in _KEYS.items()},
        )


_KEYS: Final = {
    name: name.replace("_", ".")
    for name in LogConfig.__dataclass_fields__
    if name not in ("rules", "roll_ms", "cleanup_policy")
}
