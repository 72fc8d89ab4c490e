"""Broker keys of classic and consumer groups and their offsets."""

from __future__ import annotations

from headrace.config.effect import harmless, warned
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
        "Copies of each of them.",
        at_least(1),
        importance=HIGH,
        difference="1 when the broker stands alone (no `zookeeper.connect`).",
    ),
    Key(
        "offsets.topic.segment.bytes",
        INT,
        104_857_600,
        "Segment size of `__consumer_offsets`; small, so that loading a group stays quick.",
        at_least(1),
        importance=HIGH,
    ),
    Key(
        "offsets.topic.compression.codec",
        INT,
        0,
        "Codec of the offsets topic: 0 none, 1 gzip, 2 snappy, 3 lz4, 4 zstd.",
        between(0, 4),
        importance=HIGH,
    ),
    Key(
        "offsets.retention.minutes",
        INT,
        10_080,
        "How long committed offsets outlive their group, or their topic's subscription.",
        at_least(1),
        importance=HIGH,
    ),
    Key(
        "offsets.retention.check.interval.ms",
        LONG,
        600_000,
        "How often the broker looks for offsets that have outlived it.",
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
    Key(
        "offset.metadata.max.bytes", INT, 4096, "The longest text that may go with a committed offset.", importance=HIGH
    ),
    Key("group.min.session.timeout.ms", INT, 6000, "The shortest session timeout a classic member may ask for."),
    Key("group.max.session.timeout.ms", INT, 1_800_000, "The longest session timeout a classic member may ask for."),
    Key(
        "group.initial.rebalance.delay.ms",
        INT,
        3000,
        "How long the first rebalance of a new classic group waits for more members.",
        difference="0 when the broker stands alone (no `zookeeper.connect`).",
    ),
    Key("group.max.size", INT, INT_MAX, "The most members of a classic group.", at_least(1)),
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
        "Threads for the coordinator's heavier work.",
        at_least(1),
        importance=HIGH,
        effect=harmless("the coordinator runs on the event loop"),
    ),
    Key(
        "group.coordinator.append.linger.ms",
        INT,
        -1,
        "How long the coordinator gathers records before it writes them; -1 writes at once while idle.",
        at_least(-1),
        effect=harmless("the coordinator writes together what one turn of the event loop gathers"),
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
        "Group protocols that are served.",
        each_of("consumer", "classic", "share", "streams"),
        effect=warned("classic, consumer and share groups are always served, streams groups never"),
    ),
    Key(
        "group.consumer.session.timeout.ms",
        INT,
        45_000,
        "A member of a consumer group that is silent for this long is gone.",
        at_least(1),
    ),
    Key(
        "group.consumer.min.session.timeout.ms",
        INT,
        45_000,
        "The shortest session timeout a group may set for itself.",
        at_least(1),
    ),
    Key(
        "group.consumer.max.session.timeout.ms",
        INT,
        60_000,
        "The longest session timeout a group may set for itself.",
        at_least(1),
    ),
    Key(
        "group.consumer.heartbeat.interval.ms",
        INT,
        5000,
        "How often members are told to send a heartbeat.",
        at_least(1),
    ),
    Key(
        "group.consumer.min.heartbeat.interval.ms",
        INT,
        5000,
        "The shortest heartbeat interval a group may set for itself.",
        at_least(1),
    ),
    Key(
        "group.consumer.max.heartbeat.interval.ms",
        INT,
        15_000,
        "The longest heartbeat interval a group may set for itself.",
        at_least(1),
    ),
    Key(
        "group.consumer.assignment.interval.ms",
        INT,
        1000,
        "The least time between two assignments of a consumer group.",
        at_least(0),
        update=CLUSTER_WIDE,
    ),
    Key(
        "group.consumer.min.assignment.interval.ms",
        INT,
        0,
        "The shortest assignment interval a group may set for itself.",
        at_least(0),
    ),
    Key(
        "group.consumer.max.assignment.interval.ms",
        INT,
        15_000,
        "The longest assignment interval a group may set for itself.",
        at_least(0),
    ),
    Key("group.consumer.max.size", INT, INT_MAX, "The most members of a consumer group.", at_least(1)),
    Key(
        "group.consumer.assignors",
        LIST,
        ["uniform", "range"],
        "Assignors that the coordinator offers, the preferred one first.",
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
        "Whether groups may change between the classic and the consumer protocol while they live.",
        one_of_any_case("disabled", "downgrade", "upgrade", "bidirectional"),
    ),
    Key(
        "group.consumer.regex.refresh.interval.ms",
        INT,
        600_000,
        "How often the topics that match a member's pattern are looked up again without a change of topics.",
        at_least(10_000),
        internal=True,
        effect=harmless("patterns are matched again as soon as topics change"),
    ),
)
