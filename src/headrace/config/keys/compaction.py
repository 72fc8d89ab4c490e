"""Broker keys of compaction and compression."""

from __future__ import annotations

from headrace.config.effect import harmless
from headrace.config.key import DOUBLE_MAX, LONG_MAX, Importance, Key, Type, Update
from headrace.config.rules import GZIP_LEVEL, at_least, between, one_of

BOOLEAN = Type.BOOLEAN
STRING = Type.STRING
INT = Type.INT
LONG = Type.LONG
DOUBLE = Type.DOUBLE
HIGH = Importance.HIGH
CLUSTER_WIDE = Update.CLUSTER_WIDE

KEYS = (
    Key("log.cleaner.enable", BOOLEAN, True, "Whether compaction runs."),
    Key(
        "log.cleaner.threads",
        INT,
        1,
        "Number of compaction threads.",
        at_least(0),
        update=CLUSTER_WIDE,
        effect=harmless("one thread compacts"),
    ),
    Key(
        "log.cleaner.io.max.bytes.per.second",
        DOUBLE,
        DOUBLE_MAX,
        "Maximum bytes per second that all compaction threads together read and write.",
        update=CLUSTER_WIDE,
    ),
    Key(
        "log.cleaner.dedupe.buffer.size",
        LONG,
        134_217_728,
        "Memory for the key table of all compaction threads together. A run covers as many keys as fit into it.",
        update=CLUSTER_WIDE,
    ),
    Key(
        "log.cleaner.io.buffer.size",
        INT,
        524_288,
        "Memory for reading and writing of all compaction threads together.",
        at_least(0),
        update=CLUSTER_WIDE,
        effect=harmless("compaction sizes its own buffers"),
    ),
    Key(
        "log.cleaner.io.buffer.load.factor",
        DOUBLE,
        0.9,
        "How full the key table may become in one compaction run.",
        update=CLUSTER_WIDE,
        effect=harmless("compaction sizes its own buffers"),
    ),
    Key(
        "log.cleaner.backoff.ms",
        LONG,
        15_000,
        "Pause of compaction if no log needs it.",
        at_least(0),
        update=CLUSTER_WIDE,
    ),
    Key(
        "log.cleaner.min.cleanable.ratio",
        DOUBLE,
        0.5,
        "Share of a log that must be new before compaction runs again.",
        between(0, 1),
        update=CLUSTER_WIDE,
    ),
    Key(
        "log.cleaner.delete.retention.ms",
        LONG,
        86_400_000,
        "How long compaction keeps a tombstone, so that a consumer that reads from the start can see it.",
        at_least(0),
        update=CLUSTER_WIDE,
    ),
    Key(
        "log.cleaner.min.compaction.lag.ms",
        LONG,
        0,
        "Minimum time before a record is compacted.",
        at_least(0),
        update=CLUSTER_WIDE,
    ),
    Key(
        "log.cleaner.max.compaction.lag.ms",
        LONG,
        LONG_MAX,
        "Maximum time before a record is compacted, even if the log has a low dirty ratio.",
        at_least(1),
        update=CLUSTER_WIDE,
    ),
    Key(
        "compression.type",
        STRING,
        "producer",
        "Compression of stored batches; `producer` keeps the producer's compression.",
        one_of("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"),
        importance=HIGH,
        update=CLUSTER_WIDE,
    ),
    Key(
        "compression.gzip.level",
        INT,
        -1,
        "Compression level if the broker compresses with gzip; -1 is the default of the library.",
        GZIP_LEVEL,
        update=CLUSTER_WIDE,
    ),
    Key(
        "compression.lz4.level",
        INT,
        9,
        "Compression level if the broker compresses with lz4.",
        between(1, 17),
        update=CLUSTER_WIDE,
    ),
    Key(
        "compression.zstd.level",
        INT,
        3,
        "Compression level if the broker compresses with zstd.",
        between(-131_072, 22),
        update=CLUSTER_WIDE,
    ),
)
