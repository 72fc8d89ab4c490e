"""Broker keys of tiered storage, beside `remote.log.storage.system.enable` that switches it on."""

from __future__ import annotations

from headrace.config.effect import harmless
from headrace.config.key import LONG_MAX, Importance, Key, Type, Update

BOOLEAN = Type.BOOLEAN
DOUBLE = Type.DOUBLE
INT = Type.INT
LONG = Type.LONG
STRING = Type.STRING
LOW = Importance.LOW
CLUSTER_WIDE = Update.CLUSTER_WIDE

NOT_OFFERED = harmless("it applies to tiered storage only, which is refused (remote.log.storage.system.enable)")


KEYS = (
    Key(
        "remote.log.storage.manager.class.name",
        STRING,
        None,
        "Class that keeps segments in tiered storage.",
        effect=NOT_OFFERED,
    ),
    Key(
        "remote.log.storage.manager.class.path",
        STRING,
        None,
        "Where that class is found.",
        effect=NOT_OFFERED,
    ),
    Key(
        "remote.log.storage.manager.impl.prefix",
        STRING,
        "rsm.config.",
        "Prefix of that class's own keys.",
        effect=NOT_OFFERED,
    ),
    Key(
        "remote.log.metadata.manager.class.name",
        STRING,
        "org.apache.kafka.server.log.remote.metadata.storage.TopicBasedRemoteLogMetadataManager",
        "Class that keeps the list of remote segments.",
        effect=NOT_OFFERED,
    ),
    Key(
        "remote.log.metadata.manager.class.path",
        STRING,
        None,
        "Where that class is found.",
        effect=NOT_OFFERED,
    ),
    Key(
        "remote.log.metadata.manager.impl.prefix",
        STRING,
        "rlmm.config.",
        "Prefix of that class's own keys.",
        effect=NOT_OFFERED,
    ),
    Key(
        "remote.log.metadata.manager.listener.name",
        STRING,
        None,
        "Listener that it reaches the brokers through.",
        effect=NOT_OFFERED,
    ),
    Key(
        "remote.log.metadata.custom.metadata.max.bytes",
        INT,
        128,
        "Largest extra metadata of a remote segment.",
        importance=LOW,
        effect=NOT_OFFERED,
    ),
    Key(
        "remote.log.index.file.cache.total.size.bytes",
        LONG,
        1_073_741_824,
        "Disk space for copies of remote indexes.",
        importance=LOW,
        update=CLUSTER_WIDE,
        effect=NOT_OFFERED,
    ),
    Key(
        "remote.log.index.file.cache.ttl.ms",
        LONG,
        900_000,
        "How long an unused copy of a remote index stays.",
        importance=LOW,
        internal=True,
        effect=NOT_OFFERED,
    ),
    Key(
        "remote.log.manager.thread.pool.size",
        INT,
        2,
        "Threads that follow leadership of tiered partitions.",
        effect=NOT_OFFERED,
    ),
    Key(
        "remote.log.manager.copier.thread.pool.size",
        INT,
        10,
        "Threads that copy segments to tiered storage.",
        update=CLUSTER_WIDE,
        effect=NOT_OFFERED,
    ),
    Key(
        "remote.log.manager.expiration.thread.pool.size",
        INT,
        10,
        "Threads that delete expired remote segments.",
        update=CLUSTER_WIDE,
        effect=NOT_OFFERED,
    ),
    Key(
        "remote.log.manager.follower.thread.pool.size",
        INT,
        2,
        "Threads that read remote metadata for followers.",
        update=CLUSTER_WIDE,
        effect=NOT_OFFERED,
    ),
    Key(
        "remote.log.manager.task.interval.ms",
        LONG,
        30_000,
        "How often those threads look for work.",
        importance=LOW,
        effect=NOT_OFFERED,
    ),
    Key(
        "remote.log.manager.task.retry.backoff.ms",
        LONG,
        500,
        "First pause after one of them failed.",
        importance=LOW,
        internal=True,
        effect=NOT_OFFERED,
    ),
    Key(
        "remote.log.manager.task.retry.backoff.max.ms",
        LONG,
        30_000,
        "Longest such pause.",
        importance=LOW,
        internal=True,
        effect=NOT_OFFERED,
    ),
    Key(
        "remote.log.manager.task.retry.jitter",
        DOUBLE,
        0.2,
        "Random part that is added to that pause.",
        importance=LOW,
        internal=True,
        effect=NOT_OFFERED,
    ),
    Key(
        "remote.log.manager.copy.max.bytes.per.second",
        LONG,
        LONG_MAX,
        "Bytes a second copied to tiered storage.",
        update=CLUSTER_WIDE,
        effect=NOT_OFFERED,
    ),
    Key(
        "remote.log.manager.copy.quota.window.num",
        INT,
        11,
        "Samples kept to measure that.",
        effect=NOT_OFFERED,
    ),
    Key(
        "remote.log.manager.copy.quota.window.size.seconds",
        INT,
        1,
        "Length of such a sample.",
        effect=NOT_OFFERED,
    ),
    Key(
        "remote.log.manager.fetch.max.bytes.per.second",
        LONG,
        LONG_MAX,
        "Bytes a second read from tiered storage.",
        update=CLUSTER_WIDE,
        effect=NOT_OFFERED,
    ),
    Key(
        "remote.log.manager.fetch.quota.window.num",
        INT,
        11,
        "Samples kept to measure that.",
        effect=NOT_OFFERED,
    ),
    Key(
        "remote.log.manager.fetch.quota.window.size.seconds",
        INT,
        1,
        "Length of such a sample.",
        effect=NOT_OFFERED,
    ),
    Key(
        "remote.log.reader.threads",
        INT,
        10,
        "Threads that read from tiered storage.",
        update=CLUSTER_WIDE,
        effect=NOT_OFFERED,
    ),
    Key(
        "remote.log.reader.max.pending.tasks",
        INT,
        100,
        "Reads from tiered storage that may wait.",
        effect=NOT_OFFERED,
    ),
    Key(
        "remote.fetch.max.wait.ms",
        INT,
        500,
        "How long a fetch waits for tiered storage.",
        update=CLUSTER_WIDE,
        effect=NOT_OFFERED,
    ),
    Key(
        "remote.list.offsets.request.timeout.ms",
        LONG,
        30_000,
        "How long a look-up of offsets waits for tiered storage.",
        update=CLUSTER_WIDE,
        effect=NOT_OFFERED,
    ),
    Key(
        "follower.fetch.last.tiered.offset.enable",
        BOOLEAN,
        False,
        "Whether a new follower begins where tiered storage ends.",
        update=CLUSTER_WIDE,
        effect=NOT_OFFERED,
    ),
)
