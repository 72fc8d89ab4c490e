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
        "The directory that holds the logs when `log.dirs` is not set.",
        importance=HIGH,
    ),
    Key(
        "log.dirs",
        LIST,
        None,
        "The directories that hold the logs, separated by commas; a new partition goes to the one with the "
        "fewest partitions. When one fails, the others go on.",
        importance=HIGH,
    ),
    Key(
        "log.segment.bytes",
        INT,
        1_073_741_824,
        "A segment file that would grow beyond this is closed and a new one begun.",
        at_least(1_048_576),
        importance=HIGH,
        update=CLUSTER_WIDE,
    ),
    Key(
        "log.roll.ms",
        LONG,
        None,
        "A segment older than this is closed even if it is not full; wins over `log.roll.hours`.",
        at_least(1),
        importance=HIGH,
        update=CLUSTER_WIDE,
    ),
    Key("log.roll.hours", INT, 168, "As `log.roll.ms`, in hours.", at_least(1), importance=HIGH),
    Key(
        "log.roll.jitter.ms",
        LONG,
        None,
        "A random part up to this is taken off the rolling time, so that segments of many partitions do not "
        "roll together; wins over `log.roll.jitter.hours`.",
        at_least(0),
        importance=HIGH,
        update=CLUSTER_WIDE,
    ),
    Key("log.roll.jitter.hours", INT, 0, "As `log.roll.jitter.ms`, in hours.", at_least(0), importance=HIGH),
    Key(
        "log.retention.ms",
        LONG,
        None,
        "A closed segment whose newest record is older than this is deleted; -1 keeps it for ever. Wins over "
        "minutes and hours.",
        not_zero_unlimited_below(),
        importance=HIGH,
        update=CLUSTER_WIDE,
    ),
    Key(
        "log.retention.minutes",
        INT,
        None,
        "As `log.retention.ms`, in minutes; wins over hours.",
        not_zero_unlimited_below(),
        importance=HIGH,
    ),
    Key(
        "log.retention.hours", INT, 168, "As `log.retention.ms`, in hours.", not_zero_unlimited_below(), importance=HIGH
    ),
    Key(
        "log.retention.bytes",
        LONG,
        -1,
        "Oldest segments of a partition are deleted while the rest still holds this many bytes; -1 sets no "
        "limit. It counts per partition, not per topic.",
        importance=HIGH,
        update=CLUSTER_WIDE,
    ),
    Key(
        "log.retention.check.interval.ms",
        LONG,
        300_000,
        "How often the broker looks for segments to delete.",
        at_least(1),
    ),
    Key(
        "log.cleanup.policy",
        LIST,
        ["delete"],
        "What happens to old records: `delete` drops old segments, `compact` keeps the last value of each "
        "key; both may be given.",
        each_of("compact", "delete"),
        update=CLUSTER_WIDE,
    ),
    Key(
        "log.index.size.max.bytes",
        INT,
        10_485_760,
        "Size of an offset or time index at which its segment is closed.",
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
        "Records after which a partition's log is written through to the disk (fsync). By default that is "
        "left to the operating system: replication protects the data.",
        at_least(1),
        importance=HIGH,
        update=CLUSTER_WIDE,
    ),
    Key(
        "log.flush.interval.ms",
        LONG,
        None,
        "Time after which a partition's log is written through to the disk; when unset, "
        "`log.flush.scheduler.interval.ms`.",
        importance=HIGH,
        update=CLUSTER_WIDE,
    ),
    Key(
        "log.flush.scheduler.interval.ms",
        LONG,
        LONG_MAX,
        "How often the broker looks for logs that are due to be written through.",
        importance=HIGH,
    ),
    Key(
        "log.flush.offset.checkpoint.interval.ms",
        INT,
        60_000,
        "How often the point up to which each log is surely on disk is recorded; recovery starts there.",
        at_least(0),
        importance=HIGH,
        effect=harmless("the broker records it together with the high watermarks; it only shortens recovery"),
    ),
    Key(
        "log.flush.start.offset.checkpoint.interval.ms",
        INT,
        60_000,
        "How often each log's first offset is recorded.",
        at_least(0),
        importance=HIGH,
        effect=harmless("the broker records it together with the high watermarks; it only shortens recovery"),
    ),
    Key(
        "log.preallocate",
        BOOLEAN,
        False,
        "Whether a new segment file takes its full size at once.",
        update=CLUSTER_WIDE,
    ),
    Key(
        "log.segment.delete.delay.ms",
        LONG,
        60_000,
        "Time between taking a segment out of the log and deleting its files; readers finish meanwhile.",
        at_least(0),
        importance=HIGH,
        update=CLUSTER_WIDE,
    ),
    Key(
        "log.message.timestamp.type",
        STRING,
        "CreateTime",
        "Whether a record keeps the time its producer gave (`CreateTime`) or gets the broker's (`LogAppendTime`).",
        one_of("CreateTime", "LogAppendTime"),
        update=CLUSTER_WIDE,
    ),
    Key(
        "log.message.timestamp.before.max.ms",
        LONG,
        LONG_MAX,
        "Records whose time lies further in the past than this are refused (`CreateTime` only).",
        at_least(0),
        update=CLUSTER_WIDE,
    ),
    Key(
        "log.message.timestamp.after.max.ms",
        LONG,
        3_600_000,
        "Records whose time lies further in the future than this are refused (`CreateTime` only).",
        at_least(0),
        update=CLUSTER_WIDE,
    ),
    Key(
        "log.local.retention.ms",
        LONG,
        -2,
        "Kept beside the log when older segments live in tiered storage; -2 means `log.retention.ms`.",
        at_least(-2),
        update=CLUSTER_WIDE,
        effect=harmless("it applies to tiered storage only, which is refused (remote.log.storage.system.enable)"),
    ),
    Key(
        "log.local.retention.bytes",
        LONG,
        -2,
        "Kept beside the log when older segments live in tiered storage; -2 means `log.retention.bytes`.",
        at_least(-2),
        update=CLUSTER_WIDE,
        effect=harmless("it applies to tiered storage only, which is refused (remote.log.storage.system.enable)"),
    ),
    Key(
        "log.dir.failure.timeout.ms",
        LONG,
        30_000,
        "How long a failed log directory may stay unreported before the broker stops.",
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
        "The largest record batch (after compression) that is taken.",
        at_least(0),
        importance=HIGH,
        update=CLUSTER_WIDE,
    ),
    Key(
        "num.recovery.threads.per.data.dir",
        INT,
        2,
        "Threads per log directory that check logs after a crash and write them through at shutdown.",
        at_least(1),
        importance=HIGH,
        update=CLUSTER_WIDE,
    ),
    Key(
        "producer.id.expiration.ms",
        INT,
        86_400_000,
        "How long an idle producer's sequence numbers are remembered. A duplicate that comes later is not noticed.",
        at_least(1),
        importance=LOW,
        update=CLUSTER_WIDE,
    ),
    Key(
        "cordoned.log.dirs",
        LIST,
        [],
        "Log directories that take no new partitions.",
        update=PER_BROKER,
        effect=refused("every log directory takes new partitions, none can be cordoned"),
    ),
    Key(
        "remote.log.storage.system.enable",
        BOOLEAN,
        False,
        "Whether older segments move to tiered storage.",
        effect=refused("tiered storage is not offered"),
    ),
    Key(
        "producer.id.expiration.check.interval.ms",
        INT,
        600_000,
        "How often idle producers' sequence numbers are looked through for those to forget.",
        at_least(1),
        importance=LOW,
        internal=True,
    ),
    Key(
        "log.initial.task.delay.ms",
        LONG,
        30_000,
        "How long after the start the log's housekeeping begins.",
        at_least(0),
        importance=LOW,
        internal=True,
        difference="For the first look at retention, which comes no later than the second; the rest begins at once.",
    ),
)
