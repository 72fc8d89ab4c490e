"""Broker keys of the log: directories, segments, retention, flushing."""

from __future__ import annotations

from headrace.config.effect import harmless, refused, warned
from headrace.config.key import LONG_MAX, Importance, Key, Type, Update
from headrace.config.rules import at_least, each_of, not_zero_unlimited_below, one_of

BOOLEAN = Type.BOOLEAN
STRING = Type.STRING
INT = Type.INT
LONG = Type.LONG
LIST = Type.LIST
HIGH = Importance.HIGH
LOW = Importance.LOW
CLUSTER_WIDE = Update.CLUSTER_WIDE
PER_BROKER = Update.PER_BROKER

KEYS = (
    Key(
        "log.dir",
        LIST,
        ["/tmp/kafka-logs"],
        "Log directory if `log.dirs` is not set.",
        importance=HIGH,
    ),
    Key(
        "log.dirs",
        LIST,
        None,
        "Log directories, separated by commas. The broker places a new partition in the directory with the fewest "
        "partitions. If one directory fails, the others continue.",
        importance=HIGH,
    ),
    Key(
        "log.segment.bytes",
        INT,
        1_073_741_824,
        "Maximum size of a segment file. The broker then starts a new segment.",
        at_least(1_048_576),
        importance=HIGH,
        update=CLUSTER_WIDE,
    ),
    Key(
        "log.roll.ms",
        LONG,
        None,
        "Maximum age of the active segment; the broker then starts a new one. Overrides `log.roll.hours`.",
        at_least(1),
        importance=HIGH,
        update=CLUSTER_WIDE,
    ),
    Key("log.roll.hours", INT, 168, "Like `log.roll.ms`, in hours.", at_least(1), importance=HIGH),
    Key(
        "log.roll.jitter.ms",
        LONG,
        None,
        "Maximum random time that is subtracted from the roll time, so that many partitions do not roll at the same "
        "time. Overrides `log.roll.jitter.hours`.",
        at_least(0),
        importance=HIGH,
        update=CLUSTER_WIDE,
    ),
    Key("log.roll.jitter.hours", INT, 0, "Like `log.roll.jitter.ms`, in hours.", at_least(0), importance=HIGH),
    Key(
        "log.retention.ms",
        LONG,
        None,
        "The broker deletes a closed segment when its newest record is older than this; -1 keeps it forever. "
        "Overrides minutes and hours.",
        not_zero_unlimited_below(),
        importance=HIGH,
        update=CLUSTER_WIDE,
    ),
    Key(
        "log.retention.minutes",
        INT,
        None,
        "Like `log.retention.ms`, in minutes. Overrides hours.",
        not_zero_unlimited_below(),
        importance=HIGH,
    ),
    Key(
        "log.retention.hours",
        INT,
        168,
        "Like `log.retention.ms`, in hours.",
        not_zero_unlimited_below(),
        importance=HIGH,
    ),
    Key(
        "log.retention.bytes",
        LONG,
        -1,
        "The broker deletes the oldest segments of a partition while the rest has at least this many bytes; -1 sets "
        "no limit. The limit is per partition, not per topic.",
        importance=HIGH,
        update=CLUSTER_WIDE,
    ),
    Key(
        "log.retention.check.interval.ms",
        LONG,
        300_000,
        "How often the broker checks for segments to delete.",
        at_least(1),
    ),
    Key(
        "log.cleanup.policy",
        LIST,
        ["delete"],
        "What the broker does with old records: `delete` deletes old segments, `compact` keeps the last value of "
        "each key. You can set both.",
        each_of("compact", "delete"),
        update=CLUSTER_WIDE,
    ),
    Key(
        "log.index.size.max.bytes",
        INT,
        10_485_760,
        "Maximum size of an offset or time index. The broker then starts a new segment.",
        at_least(4),
        update=CLUSTER_WIDE,
    ),
    Key(
        "log.index.interval.bytes",
        INT,
        4096,
        "Bytes of log between two index entries.",
        at_least(0),
        update=CLUSTER_WIDE,
    ),
    Key(
        "log.flush.interval.messages",
        LONG,
        LONG_MAX,
        "Number of records after which the broker flushes a log to the disk (fsync). By default the operating system "
        "decides: replication protects the data.",
        at_least(1),
        importance=HIGH,
        update=CLUSTER_WIDE,
    ),
    Key(
        "log.flush.interval.ms",
        LONG,
        None,
        "Time after which the broker flushes a log to the disk. Default: `log.flush.scheduler.interval.ms`.",
        importance=HIGH,
        update=CLUSTER_WIDE,
    ),
    Key(
        "log.flush.scheduler.interval.ms",
        LONG,
        LONG_MAX,
        "How often the broker checks for logs to flush.",
        importance=HIGH,
    ),
    Key(
        "log.flush.offset.checkpoint.interval.ms",
        INT,
        60_000,
        "How often the broker writes the recovery point of each log. Recovery starts there.",
        at_least(0),
        importance=HIGH,
        effect=harmless("the broker writes it together with the high watermarks; it only shortens recovery"),
    ),
    Key(
        "log.flush.start.offset.checkpoint.interval.ms",
        INT,
        60_000,
        "How often the broker writes the log start offset of each log.",
        at_least(0),
        importance=HIGH,
        effect=harmless("the broker writes it together with the high watermarks; it only shortens recovery"),
    ),
    Key(
        "log.preallocate",
        BOOLEAN,
        False,
        "Whether the broker preallocates the full size of a new segment file.",
        update=CLUSTER_WIDE,
    ),
    Key(
        "log.segment.delete.delay.ms",
        LONG,
        60_000,
        "Time between removing a segment from the log and deleting its files. Readers can finish meanwhile.",
        at_least(0),
        importance=HIGH,
        update=CLUSTER_WIDE,
    ),
    Key(
        "log.message.timestamp.type",
        STRING,
        "CreateTime",
        "Timestamp of a record: the producer's (`CreateTime`) or the broker's (`LogAppendTime`).",
        one_of("CreateTime", "LogAppendTime"),
        update=CLUSTER_WIDE,
    ),
    Key(
        "log.message.timestamp.before.max.ms",
        LONG,
        LONG_MAX,
        "The leader rejects records with a timestamp further in the past than this (`CreateTime` only).",
        at_least(0),
        update=CLUSTER_WIDE,
    ),
    Key(
        "log.message.timestamp.after.max.ms",
        LONG,
        3_600_000,
        "The leader rejects records with a timestamp further in the future than this (`CreateTime` only).",
        at_least(0),
        update=CLUSTER_WIDE,
    ),
    Key(
        "log.local.retention.ms",
        LONG,
        -2,
        "Retention time of local segments with tiered storage; -2 means `log.retention.ms`.",
        at_least(-2),
        update=CLUSTER_WIDE,
        effect=harmless("it applies only to tiered storage, which Headrace refuses (remote.log.storage.system.enable)"),
    ),
    Key(
        "log.local.retention.bytes",
        LONG,
        -2,
        "Retention size of local segments with tiered storage; -2 means `log.retention.bytes`.",
        at_least(-2),
        update=CLUSTER_WIDE,
        effect=harmless("it applies only to tiered storage, which Headrace refuses (remote.log.storage.system.enable)"),
    ),
    Key(
        "log.dir.failure.timeout.ms",
        LONG,
        30_000,
        "If the broker cannot report a failed log directory for this time, it stops.",
        at_least(1),
        importance=LOW,
        effect=warned(
            "the broker reports a failed directory with the next change of its partitions, without a time limit"
        ),
    ),
    Key(
        "message.max.bytes",
        INT,
        1_048_588,
        "Maximum size of a record batch (after compression).",
        at_least(0),
        importance=HIGH,
        update=CLUSTER_WIDE,
    ),
    Key(
        "num.recovery.threads.per.data.dir",
        INT,
        2,
        "Threads per log directory that check logs after a crash and flush them at shutdown.",
        at_least(1),
        importance=HIGH,
        update=CLUSTER_WIDE,
    ),
    Key(
        "producer.id.expiration.ms",
        INT,
        86_400_000,
        "How long the broker keeps the sequence numbers of an idle producer. It does not detect a duplicate after "
        "this time.",
        at_least(1),
        importance=LOW,
        update=CLUSTER_WIDE,
    ),
    Key(
        "cordoned.log.dirs",
        LIST,
        [],
        "Log directories that get no new partitions, by their names in `log.dirs`; `*` for all of them. A broker whose "
        "directories are all cordoned gets no new replicas. Existing partitions stay and serve.",
        update=PER_BROKER,
    ),
    Key(
        "remote.log.storage.system.enable",
        BOOLEAN,
        False,
        "Whether older segments move to tiered storage.",
        effect=refused("Headrace does not support tiered storage"),
    ),
    Key(
        "producer.id.expiration.check.interval.ms",
        INT,
        600_000,
        "How often the broker checks for producer state to delete.",
        at_least(1),
        importance=LOW,
        internal=True,
    ),
    Key(
        "log.initial.task.delay.ms",
        LONG,
        30_000,
        "Delay between the start and the first maintenance of the logs.",
        at_least(0),
        importance=LOW,
        internal=True,
        difference="Applies only to the first retention check, which runs at the latest with the second one. Other "
        "maintenance starts at once.",
    ),
)
