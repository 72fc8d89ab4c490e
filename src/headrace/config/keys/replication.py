"""Broker keys: replication and elections."""

from __future__ import annotations

from headrace.config.effect import harmless, warned
from headrace.config.key import LONG_MAX, Importance, Key, Type, Update
from headrace.config.rules import at_least, one_of

BOOLEAN = Type.BOOLEAN
STRING = Type.STRING
INT = Type.INT
LONG = Type.LONG
HIGH = Importance.HIGH
LOW = Importance.LOW
CLUSTER_WIDE = Update.CLUSTER_WIDE

KEYS = (
    Key("default.replication.factor", INT, 1, "Replication factor of a new topic if the request gives none."),
    Key(
        "min.insync.replicas",
        INT,
        1,
        "Minimum number of in-sync replicas for writes with `acks=all`. With fewer, the leader rejects them "
        "(NOT_ENOUGH_REPLICAS) and commits no records.",
        at_least(1),
        importance=HIGH,
        update=CLUSTER_WIDE,
    ),
    Key(
        "num.replica.fetchers",
        INT,
        1,
        "Connections to each leader broker that a follower uses.",
        at_least(1),
        importance=HIGH,
        update=CLUSTER_WIDE,
        effect=harmless("one connection to each leader fetches for all its partitions"),
    ),
    Key("replica.fetch.min.bytes", INT, 1, "Minimum bytes that a follower's fetch waits for.", importance=HIGH),
    Key(
        "replica.fetch.max.bytes",
        INT,
        1_048_576,
        "Maximum bytes per partition in a follower's fetch. The leader still returns a larger first batch.",
        at_least(0),
    ),
    Key(
        "replica.fetch.response.max.bytes",
        INT,
        10_485_760,
        "Maximum bytes in the answer to a follower's fetch.",
        at_least(0),
    ),
    Key(
        "replica.fetch.wait.max.ms",
        INT,
        500,
        "How long a follower's fetch waits for data. Must be less than `replica.lag.time.max.ms`, otherwise idle "
        "partitions lose their in-sync replicas.",
        importance=HIGH,
    ),
    Key("replica.fetch.backoff.ms", INT, 1000, "Pause after a failed fetch from a leader.", at_least(0)),
    Key(
        "replica.lag.time.max.ms",
        LONG,
        30_000,
        "A follower that has not caught up with the leader's log end for this long leaves the in-sync replicas.",
        importance=HIGH,
    ),
    Key(
        "replica.socket.timeout.ms",
        INT,
        30_000,
        "Timeout of a follower's fetch; at least `replica.fetch.wait.max.ms`.",
        importance=HIGH,
    ),
    Key(
        "replica.socket.receive.buffer.bytes",
        INT,
        65_536,
        "SO_RCVBUF of followers' connections.",
        importance=HIGH,
        effect=harmless("the operating system tunes the receive buffers"),
    ),
    Key(
        "replica.high.watermark.checkpoint.interval.ms",
        LONG,
        5000,
        "How often the broker writes the high watermarks to the disk.",
        importance=HIGH,
    ),
    Key(
        "replica.selector.class",
        STRING,
        None,
        "Class that chooses the replica a consumer reads from: the leader, or with RackAwareReplicaSelector an in-sync "
        "replica in the consumer's own rack (client.rack).",
        one_of(
            "",
            "org.apache.kafka.common.replica.LeaderSelector",
            "org.apache.kafka.common.replica.RackAwareReplicaSelector",
        ),
        difference="Only Kafka's two classes: there is no JVM to load others.",
    ),
    Key(
        "auto.leader.rebalance.enable",
        BOOLEAN,
        True,
        "Whether the controller returns leadership to the preferred replicas automatically.",
        importance=HIGH,
    ),
    Key(
        "leader.imbalance.check.interval.seconds",
        LONG,
        300,
        "How often the controller checks for partitions whose leader is not the preferred replica.",
        at_least(1),
        importance=HIGH,
    ),
    Key(
        "unclean.leader.election.enable",
        BOOLEAN,
        False,
        "Whether a replica that is not in sync may become leader if no other replica is left. Acknowledged records "
        "may be lost.",
        importance=HIGH,
        update=CLUSTER_WIDE,
    ),
    Key(
        "num.replica.alter.log.dirs.threads",
        INT,
        None,
        "Number of replicas that are moved between log directories at the same time. Default: one per directory.",
        importance=HIGH,
    ),
    Key("controlled.shutdown.enable", BOOLEAN, True, "Whether a stopping broker first hands over leadership."),
    Key(
        "broker.rack",
        STRING,
        None,
        "Rack of the broker. The controller places the replicas of a partition on different racks.",
    ),
    Key(
        "controller.socket.timeout.ms",
        INT,
        30_000,
        "How long the controller waits for a broker's answer.",
        effect=warned("requests between brokers have fixed time limits"),
    ),
    Key(
        "replication.quota.window.num",
        INT,
        11,
        "Samples kept to measure throttled replication.",
        at_least(1),
        importance=LOW,
        effect=harmless("throttled replication is measured over a sliding second"),
    ),
    Key(
        "replication.quota.window.size.seconds",
        INT,
        1,
        "Length of such a sample.",
        at_least(1),
        importance=LOW,
        effect=harmless("throttled replication is measured over a sliding second"),
    ),
    Key(
        "alter.log.dirs.replication.quota.window.num",
        INT,
        11,
        "Samples kept to measure moves between log directories.",
        at_least(1),
        importance=LOW,
        effect=harmless("moves between log directories are measured over a sliding second"),
    ),
    Key(
        "alter.log.dirs.replication.quota.window.size.seconds",
        INT,
        1,
        "Length of such a sample.",
        at_least(1),
        importance=LOW,
        effect=harmless("moves between log directories are measured over a sliding second"),
    ),
    Key(
        "leader.replication.throttled.rate",
        LONG,
        LONG_MAX,
        "Bytes per second that this broker sends to followers of throttled replicas.",
        at_least(0),
        update=CLUSTER_WIDE,
        dynamic_only=True,
    ),
    Key(
        "follower.replication.throttled.rate",
        LONG,
        LONG_MAX,
        "Bytes per second that this broker fetches as a follower of throttled replicas.",
        at_least(0),
        update=CLUSTER_WIDE,
        dynamic_only=True,
    ),
    Key(
        "replica.alter.log.dirs.io.max.bytes.per.second",
        LONG,
        LONG_MAX,
        "Bytes per second for moving replicas between log directories.",
        at_least(0),
        update=CLUSTER_WIDE,
        dynamic_only=True,
    ),
    Key(
        "producer.purgatory.purge.interval.requests",
        INT,
        1000,
        "Waiting produce requests between two purges.",
        effect=harmless("a request that has finished leaves nothing to purge"),
    ),
    Key(
        "fetch.purgatory.purge.interval.requests",
        INT,
        1000,
        "Waiting fetch requests between two purges.",
        effect=harmless("a request that has finished leaves nothing to purge"),
    ),
    Key(
        "delete.records.purgatory.purge.interval.requests",
        INT,
        1,
        "Waiting DeleteRecords requests between two purges.",
        effect=harmless("a request that has finished leaves nothing to purge"),
    ),
    Key(
        "share.fetch.purgatory.purge.interval.requests",
        INT,
        1000,
        "Waiting share fetches between two purges.",
        effect=harmless("a request that has finished leaves nothing to purge"),
    ),
)
