"""Topic keys, each with the broker keys it inherits from."""

from __future__ import annotations

from headrace.config.effect import harmless, refused
from headrace.config.key import LONG_MAX, Key, Synonym, Type
from headrace.config.rules import GZIP_LEVEL, THROTTLED_REPLICAS, at_least, between, each_of, one_of

BOOLEAN = Type.BOOLEAN
STRING = Type.STRING
INT = Type.INT
LONG = Type.LONG
DOUBLE = Type.DOUBLE
LIST = Type.LIST

KEYS = (
    Key(
        "cleanup.policy",
        LIST,
        ["delete"],
        "What the broker does with old records: `delete` deletes old segments, `compact` keeps the last value of "
        "each key. You can set both.",
        each_of("compact", "delete"),
        synonyms=(Synonym("log.cleanup.policy"),),
    ),
    Key(
        "compression.type",
        STRING,
        "producer",
        "Compression of stored batches; `producer` keeps the producer's compression.",
        one_of("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"),
        synonyms=(Synonym("compression.type"),),
    ),
    Key(
        "compression.gzip.level",
        INT,
        -1,
        "Compression level if the broker compresses with gzip; -1 is the default of the library.",
        GZIP_LEVEL,
        synonyms=(Synonym("compression.gzip.level"),),
    ),
    Key(
        "compression.lz4.level",
        INT,
        9,
        "Compression level if the broker compresses with lz4.",
        between(1, 17),
        synonyms=(Synonym("compression.lz4.level"),),
    ),
    Key(
        "compression.zstd.level",
        INT,
        3,
        "Compression level if the broker compresses with zstd.",
        between(-131_072, 22),
        synonyms=(Synonym("compression.zstd.level"),),
    ),
    Key(
        "delete.retention.ms",
        LONG,
        86_400_000,
        "How long compaction keeps a tombstone, so that a consumer that reads from the start can see it.",
        at_least(0),
        synonyms=(Synonym("log.cleaner.delete.retention.ms"),),
    ),
    Key(
        "file.delete.delay.ms",
        LONG,
        60_000,
        "Time between removing a segment from the log and deleting its files.",
        at_least(0),
        synonyms=(Synonym("log.segment.delete.delay.ms"),),
    ),
    Key(
        "flush.messages",
        LONG,
        LONG_MAX,
        "Number of records after which the broker flushes the log to the disk (fsync).",
        at_least(1),
        synonyms=(Synonym("log.flush.interval.messages"),),
    ),
    Key(
        "flush.ms",
        LONG,
        LONG_MAX,
        "Time after which the broker flushes the log to the disk.",
        at_least(0),
        synonyms=(
            Synonym("log.flush.interval.ms"),
            Synonym("log.flush.scheduler.interval.ms"),
        ),
    ),
    Key(
        "follower.replication.throttled.replicas",
        LIST,
        [],
        "Replicas that the broker throttles as a follower: `partition:broker`, … or `*`.",
        THROTTLED_REPLICAS,
    ),
    Key(
        "leader.replication.throttled.replicas",
        LIST,
        [],
        "Replicas that the broker throttles as a leader: `partition:broker`, … or `*`.",
        THROTTLED_REPLICAS,
    ),
    Key(
        "index.interval.bytes",
        INT,
        4096,
        "Bytes of log between two index entries.",
        at_least(0),
        synonyms=(Synonym("log.index.interval.bytes"),),
    ),
    Key(
        "internal.segment.bytes",
        INT,
        None,
        "Segment size without a lower limit, for tests. Overrides `segment.bytes`.",
        internal=True,
    ),
    Key(
        "local.retention.bytes",
        LONG,
        -2,
        "Retention size of local segments with tiered storage; -2 means `retention.bytes`.",
        at_least(-2),
        synonyms=(Synonym("log.local.retention.bytes"),),
        effect=harmless("it applies only to tiered storage, which Headrace refuses (remote.storage.enable)"),
    ),
    Key(
        "local.retention.ms",
        LONG,
        -2,
        "Retention time of local segments with tiered storage; -2 means `retention.ms`.",
        at_least(-2),
        synonyms=(Synonym("log.local.retention.ms"),),
        effect=harmless("it applies only to tiered storage, which Headrace refuses (remote.storage.enable)"),
    ),
    Key(
        "max.compaction.lag.ms",
        LONG,
        LONG_MAX,
        "Maximum time before a record is compacted, even if the log has a low dirty ratio.",
        at_least(1),
        synonyms=(Synonym("log.cleaner.max.compaction.lag.ms"),),
    ),
    Key(
        "max.message.bytes",
        INT,
        1_048_588,
        "Maximum size of a record batch (after compression).",
        at_least(0),
        synonyms=(Synonym("message.max.bytes"),),
    ),
    Key(
        "message.timestamp.after.max.ms",
        LONG,
        3_600_000,
        "The leader rejects records with a timestamp further in the future than this (`CreateTime` only).",
        at_least(0),
        synonyms=(Synonym("log.message.timestamp.after.max.ms"),),
    ),
    Key(
        "message.timestamp.before.max.ms",
        LONG,
        LONG_MAX,
        "The leader rejects records with a timestamp further in the past than this (`CreateTime` only).",
        at_least(0),
        synonyms=(Synonym("log.message.timestamp.before.max.ms"),),
    ),
    Key(
        "message.timestamp.type",
        STRING,
        "CreateTime",
        "Timestamp of a record: the producer's (`CreateTime`) or the broker's (`LogAppendTime`).",
        one_of("CreateTime", "LogAppendTime"),
        synonyms=(Synonym("log.message.timestamp.type"),),
    ),
    Key(
        "min.cleanable.dirty.ratio",
        DOUBLE,
        0.5,
        "Share of the log that must be new before compaction runs again.",
        between(0, 1),
        synonyms=(Synonym("log.cleaner.min.cleanable.ratio"),),
    ),
    Key(
        "min.compaction.lag.ms",
        LONG,
        0,
        "Minimum time before a record is compacted.",
        at_least(0),
        synonyms=(Synonym("log.cleaner.min.compaction.lag.ms"),),
    ),
    Key(
        "min.insync.replicas",
        INT,
        1,
        "Minimum number of in-sync replicas for writes with `acks=all`. With fewer, the leader rejects them "
        "(NOT_ENOUGH_REPLICAS) and commits no records.",
        at_least(1),
        synonyms=(Synonym("min.insync.replicas"),),
    ),
    Key(
        "preallocate",
        BOOLEAN,
        False,
        "Whether the broker preallocates the full size of a new segment file.",
        synonyms=(Synonym("log.preallocate"),),
    ),
    Key(
        "remote.log.copy.disable",
        BOOLEAN,
        False,
        "Whether the broker stops copying to tiered storage.",
        effect=harmless("it applies only to tiered storage, which Headrace refuses (remote.storage.enable)"),
    ),
    Key(
        "remote.log.delete.on.disable",
        BOOLEAN,
        False,
        "Whether the broker deletes remote segments when tiered storage is switched off.",
        effect=harmless("it applies only to tiered storage, which Headrace refuses (remote.storage.enable)"),
    ),
    Key(
        "remote.storage.enable",
        BOOLEAN,
        False,
        "Whether older segments move to tiered storage.",
        effect=refused("Headrace does not support tiered storage"),
    ),
    Key(
        "retention.bytes",
        LONG,
        -1,
        "The broker deletes the oldest segments of a partition while the rest has at least this many bytes; -1 sets "
        "no limit.",
        synonyms=(Synonym("log.retention.bytes"),),
    ),
    Key(
        "retention.ms",
        LONG,
        604_800_000,
        "The broker deletes a closed segment when its newest record is older than this; -1 keeps it forever.",
        at_least(-1),
        synonyms=(
            Synonym("log.retention.ms"),
            Synonym("log.retention.minutes", 60_000),
            Synonym("log.retention.hours", 3_600_000),
        ),
    ),
    Key(
        "segment.bytes",
        INT,
        1_073_741_824,
        "Maximum size of a segment file. The broker then starts a new segment.",
        at_least(1_048_576),
        synonyms=(Synonym("log.segment.bytes"),),
    ),
    Key(
        "segment.index.bytes",
        INT,
        10_485_760,
        "Maximum size of an offset or time index. The broker then starts a new segment.",
        at_least(4),
        synonyms=(Synonym("log.index.size.max.bytes"),),
    ),
    Key(
        "segment.jitter.ms",
        LONG,
        0,
        "Maximum random time that is subtracted from `segment.ms`, so that many partitions do not roll at the same "
        "time.",
        at_least(0),
        synonyms=(
            Synonym("log.roll.jitter.ms"),
            Synonym("log.roll.jitter.hours", 3_600_000),
        ),
    ),
    Key(
        "segment.ms",
        LONG,
        604_800_000,
        "Maximum age of the active segment. The broker then starts a new one.",
        at_least(1),
        synonyms=(
            Synonym("log.roll.ms"),
            Synonym("log.roll.hours", 3_600_000),
        ),
    ),
    Key(
        "unclean.leader.election.enable",
        BOOLEAN,
        False,
        "Whether a replica that is not in sync may become leader if no other replica is left. Acknowledged records "
        "may be lost.",
        synonyms=(Synonym("unclean.leader.election.enable"),),
    ),
)
