"""Broker keys of tiered storage. `remote.log.storage.system.enable` switches it on."""

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

NOT_OFFERED = harmless("it applies only to tiered storage, which Headrace refuses (remote.log.storage.system.enable)")


KEYS = (
    Key(
        "remote.log.storage.manager.class.name",
        STRING,
        None,
        "Class that stores segments in tiered storage.",
        effect=NOT_OFFERED,
    ),
    Key(
        "remote.log.storage.manager.class.path",
        STRING,
        None,
        "Class path of this class.",
        effect=NOT_OFFERED,
    ),
    Key(
        "remote.log.storage.manager.impl.prefix",
        STRING,
        "rsm.config.",
        "Prefix of the keys for this class.",
        effect=NOT_OFFERED,
    ),
    Key(
        "remote.log.metadata.manager.class.name",
        STRING,
        "org.apache.kafka.server.log.remote.metadata.storage.TopicBasedRemoteLogMetadataManager",
        "Class that stores the list of remote segments.",
        effect=NOT_OFFERED,
    ),
    Key(
        "remote.log.metadata.manager.class.path",
        STRING,
        None,
        "Class path of this class.",
        effect=NOT_OFFERED,
    ),
    Key(
        "remote.log.metadata.manager.impl.prefix",
        STRING,
        "rlmm.config.",
        "Prefix of the keys for this class.",
        effect=NOT_OFFERED,
    ),
    Key(
        "remote.log.metadata.manager.listener.name",
        STRING,
        None,
        "Listener that this class uses to connect to brokers.",
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
        "How long the broker keeps an unused copy of a remote index.",
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
        "How often these threads check for work.",
        importance=LOW,
        effect=NOT_OFFERED,
    ),
    Key(
        "remote.log.manager.task.retry.backoff.ms",
        LONG,
        500,
        "First pause after a failure of such a thread.",
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
        "Random time that is added to this pause.",
        importance=LOW,
        internal=True,
        effect=NOT_OFFERED,
    ),
    Key(
        "remote.log.manager.copy.max.bytes.per.second",
        LONG,
        LONG_MAX,
        "Maximum bytes per second copied to tiered storage.",
        update=CLUSTER_WIDE,
        effect=NOT_OFFERED,
    ),
    Key(
        "remote.log.manager.copy.quota.window.num",
        INT,
        11,
        "Samples kept to measure this rate.",
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
        "Maximum bytes per second read from tiered storage.",
        update=CLUSTER_WIDE,
        effect=NOT_OFFERED,
    ),
    Key(
        "remote.log.manager.fetch.quota.window.num",
        INT,
        11,
        "Samples kept to measure this rate.",
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
        "Maximum number of waiting reads from tiered storage.",
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
        "How long a ListOffsets request waits for tiered storage.",
        update=CLUSTER_WIDE,
        effect=NOT_OFFERED,
    ),
    Key(
        "follower.fetch.last.tiered.offset.enable",
        BOOLEAN,
        False,
        "Whether a new follower starts at the end of tiered storage.",
        update=CLUSTER_WIDE,
        effect=NOT_OFFERED,
    ),
)
