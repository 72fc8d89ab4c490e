"""Broker keys of classic and consumer groups and their offsets."""

from __future__ import annotations

from headrace.config.effect import harmless
from headrace.config.key import INT_MAX, Importance, Key, Type, Update
from headrace.config.rules import at_least, between, each_of, one_of_any_case, some_of

STRING = Type.STRING
INT = Type.INT
SHORT = Type.SHORT
LONG = Type.LONG
LIST = Type.LIST
HIGH = Importance.HIGH
CLUSTER_WIDE = Update.CLUSTER_WIDE

KEYS = (
    Key(
        "offsets.topic.num.partitions",
        INT,
        50,
        "Partitions of `__consumer_offsets`; must not change once the topic exists.",
        at_least(1),
        importance=HIGH,
    ),
    Key(
        "offsets.topic.replication.factor",
        SHORT,
        3,
        "Replication factor of this topic.",
        at_least(1),
        importance=HIGH,
        difference="1 on a standalone broker (no `zookeeper.connect`).",
    ),
    Key(
        "offsets.topic.segment.bytes",
        INT,
        104_857_600,
        "Segment size of `__consumer_offsets`. A small value makes loading fast.",
        at_least(1),
        importance=HIGH,
    ),
    Key(
        "offsets.topic.compression.codec",
        INT,
        0,
        "Compression of the offsets topic: 0 none, 1 gzip, 2 snappy, 3 lz4, 4 zstd.",
        between(0, 4),
        importance=HIGH,
    ),
    Key(
        "offsets.retention.minutes",
        INT,
        10_080,
        "How long the coordinator keeps committed offsets after the group became empty or unsubscribed from the topic.",
        at_least(1),
        importance=HIGH,
    ),
    Key(
        "offsets.retention.check.interval.ms",
        LONG,
        600_000,
        "How often the coordinator checks for expired offsets.",
        at_least(1),
        importance=HIGH,
    ),
    Key(
        "offsets.load.buffer.size",
        INT,
        5_242_880,
        "Bytes read at a time when a coordinator loads its groups.",
        at_least(1),
        importance=HIGH,
    ),
    Key(
        "offsets.commit.timeout.ms",
        INT,
        5000,
        "How long an offset commit waits for its replicas.",
        at_least(1),
        importance=HIGH,
    ),
    Key("offset.metadata.max.bytes", INT, 4096, "Maximum size of the metadata of a committed offset.", importance=HIGH),
    Key("group.min.session.timeout.ms", INT, 6000, "Minimum session timeout of a classic member."),
    Key("group.max.session.timeout.ms", INT, 1_800_000, "Maximum session timeout of a classic member."),
    Key(
        "group.initial.rebalance.delay.ms",
        INT,
        3000,
        "How long the first rebalance of a new classic group waits for more members.",
        difference="0 on a standalone broker (no `zookeeper.connect`).",
    ),
    Key("group.max.size", INT, INT_MAX, "Maximum number of members of a classic group.", at_least(1)),
    Key(
        "group.coordinator.threads",
        INT,
        4,
        "Threads of the group coordinator.",
        at_least(1),
        importance=HIGH,
        effect=harmless("the coordinator runs on the event loop"),
    ),
    Key(
        "group.coordinator.background.threads",
        INT,
        2,
        "Threads for background work of the coordinator.",
        at_least(1),
        importance=HIGH,
        effect=harmless("the coordinator runs on the event loop"),
    ),
    Key(
        "group.coordinator.append.linger.ms",
        INT,
        -1,
        "How long the coordinator collects records before it writes them; -1 writes at once if it is idle.",
        at_least(-1),
        effect=harmless("the coordinator writes the records of one turn of the event loop together"),
    ),
    Key(
        "group.coordinator.cached.buffer.max.bytes",
        INT,
        1_048_588,
        "Largest write buffer the coordinator keeps for reuse.",
        at_least(524_288),
        update=CLUSTER_WIDE,
        effect=harmless("buffers are not pooled"),
    ),
    Key(
        "group.coordinator.rebalance.protocols",
        LIST,
        ["classic", "consumer", "streams"],
        "Group protocols that the broker supports. Without `streams` it rejects streams groups. It always supports "
        "classic, consumer and share groups.",
        each_of("consumer", "classic", "share", "streams"),
    ),
    Key(
        "group.consumer.session.timeout.ms",
        INT,
        45_000,
        "The coordinator removes a member of a consumer group that sends no heartbeat for this time.",
        at_least(1),
    ),
    Key(
        "group.consumer.min.session.timeout.ms",
        INT,
        45_000,
        "Minimum session timeout that a group can set.",
        at_least(1),
    ),
    Key(
        "group.consumer.max.session.timeout.ms",
        INT,
        60_000,
        "Maximum session timeout that a group can set.",
        at_least(1),
    ),
    Key(
        "group.consumer.heartbeat.interval.ms",
        INT,
        5000,
        "Heartbeat interval that the coordinator gives to members.",
        at_least(1),
    ),
    Key(
        "group.consumer.min.heartbeat.interval.ms",
        INT,
        5000,
        "Minimum heartbeat interval that a group can set.",
        at_least(1),
    ),
    Key(
        "group.consumer.max.heartbeat.interval.ms",
        INT,
        15_000,
        "Maximum heartbeat interval that a group can set.",
        at_least(1),
    ),
    Key(
        "group.consumer.assignment.interval.ms",
        INT,
        1000,
        "Minimum time between two assignments of a consumer group.",
        at_least(0),
        update=CLUSTER_WIDE,
    ),
    Key(
        "group.consumer.min.assignment.interval.ms",
        INT,
        0,
        "Minimum assignment interval that a group can set.",
        at_least(0),
    ),
    Key(
        "group.consumer.max.assignment.interval.ms",
        INT,
        15_000,
        "Maximum assignment interval that a group can set.",
        at_least(0),
    ),
    Key("group.consumer.max.size", INT, INT_MAX, "Maximum number of members of a consumer group.", at_least(1)),
    Key(
        "group.consumer.assignors",
        LIST,
        ["uniform", "range"],
        "Assignors of the coordinator; the first one is the default.",
        some_of(
            "uniform",
            "range",
            "org.apache.kafka.coordinator.group.assignor.UniformAssignor",
            "org.apache.kafka.coordinator.group.assignor.RangeAssignor",
        ),
    ),
    Key(
        "group.consumer.migration.policy",
        STRING,
        "bidirectional",
        "Whether running groups can migrate between the classic and the consumer protocol.",
        one_of_any_case("disabled", "downgrade", "upgrade", "bidirectional"),
    ),
    Key(
        "group.consumer.regex.refresh.interval.ms",
        INT,
        600_000,
        "How often the coordinator resolves a member's regular expression again if no topic changed.",
        at_least(10_000),
        internal=True,
        effect=harmless("the coordinator resolves expressions again as soon as topics change"),
    ),
)
