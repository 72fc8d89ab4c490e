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
        "Threads that compact.",
        at_least(0),
        update=CLUSTER_WIDE,
        effect=harmless("one thread compacts"),
    ),
    Key(
        "log.cleaner.io.max.bytes.per.second",
        DOUBLE,
        DOUBLE_MAX,
        "Upper bound of what compaction reads and writes in a second, all its threads together.",
        update=CLUSTER_WIDE,
    ),
    Key(
        "log.cleaner.dedupe.buffer.size",
        LONG,
        134_217_728,
        "Memory for the key table of compaction, all its threads together; a run covers as many keys as fit.",
        update=CLUSTER_WIDE,
    ),
    Key(
        "log.cleaner.io.buffer.size",
        INT,
        524_288,
        "Memory for reading and writing during compaction, all its threads together.",
        at_least(0),
        update=CLUSTER_WIDE,
        effect=harmless("compaction sizes its own buffers"),
    ),
    Key(
        "log.cleaner.io.buffer.load.factor",
        DOUBLE,
        0.9,
        "How full the key table may become before a compaction run stops taking more.",
        update=CLUSTER_WIDE,
        effect=harmless("compaction sizes its own buffers"),
    ),
    Key(
        "log.cleaner.backoff.ms",
        LONG,
        15_000,
        "How long compaction rests when no log needs it.",
        at_least(0),
        update=CLUSTER_WIDE,
    ),
    Key(
        "log.cleaner.min.cleanable.ratio",
        DOUBLE,
        0.5,
        "A log is compacted once this part of it is new since the last time.",
        between(0, 1),
        update=CLUSTER_WIDE,
    ),
    Key(
        "log.cleaner.delete.retention.ms",
        LONG,
        86_400_000,
        "How long a deletion marker of a compacted topic stays, so that a reader from the start still sees it.",
        at_least(0),
        update=CLUSTER_WIDE,
    ),
    Key(
        "log.cleaner.min.compaction.lag.ms",
        LONG,
        0,
        "A record stays as it is for at least this long.",
        at_least(0),
        update=CLUSTER_WIDE,
    ),
    Key(
        "log.cleaner.max.compaction.lag.ms",
        LONG,
        LONG_MAX,
        "A record is compacted at the latest after this long, whatever the ratio says.",
        at_least(1),
        update=CLUSTER_WIDE,
    ),
    Key(
        "compression.type",
        STRING,
        "producer",
        "Codec that batches are stored with; `producer` keeps the producer's.",
        one_of("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"),
        importance=HIGH,
        update=CLUSTER_WIDE,
    ),
    Key(
        "compression.gzip.level",
        INT,
        -1,
        "Level used when the broker itself compresses with gzip; -1 is the library's default.",
        GZIP_LEVEL,
        update=CLUSTER_WIDE,
    ),
    Key(
        "compression.lz4.level",
        INT,
        9,
        "Level used when the broker itself compresses with lz4.",
        between(1, 17),
        update=CLUSTER_WIDE,
    ),
    Key(
        "compression.zstd.level",
        INT,
        3,
        "Level used when the broker itself compresses with zstd.",
        between(-131_072, 22),
        update=CLUSTER_WIDE,
    ),
)
