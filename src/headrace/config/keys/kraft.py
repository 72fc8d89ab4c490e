"""Broker keys of KRaft: its quorum, its metadata log, and related switches."""

from __future__ import annotations

from headrace.config.effect import harmless, refused, warned
from headrace.config.key import LONG_MAX, Importance, Key, Type
from headrace.config.rules import each_of

BOOLEAN = Type.BOOLEAN
INT = Type.INT
LIST = Type.LIST
LONG = Type.LONG
STRING = Type.STRING
HIGH = Importance.HIGH
LOW = Importance.LOW

NO_QUORUM = harmless("brokers form a cluster through ZooKeeper, without a KRaft quorum")
NO_METADATA_LOG = harmless("the coordination store has the state of the cluster; there is no metadata log")


KEYS = (
    Key(
        "process.roles",
        LIST,
        None,
        "Roles of this process in a KRaft cluster.",
        each_of("broker", "controller"),
        importance=HIGH,
        effect=harmless("every broker may become the controller"),
    ),
    Key(
        "controller.listener.names",
        LIST,
        None,
        "Listeners of the KRaft controller.",
        importance=HIGH,
        difference="Not required. The broker does not open a listener that is named here.",
    ),
    Key(
        "controller.quorum.voters",
        LIST,
        [],
        "Members of the KRaft quorum.",
        importance=HIGH,
        effect=warned(
            "brokers form a cluster through ZooKeeper (zookeeper.connect); without it this is a standalone broker"
        ),
    ),
    Key(
        "controller.quorum.bootstrap.servers",
        LIST,
        [],
        "Addresses of the KRaft quorum.",
        importance=HIGH,
        effect=warned(
            "brokers form a cluster through ZooKeeper (zookeeper.connect); without it this is a standalone broker"
        ),
    ),
    Key(
        "controller.quorum.election.timeout.ms",
        INT,
        1000,
        "How long a voter waits for a leader before it starts an election.",
        importance=HIGH,
        effect=NO_QUORUM,
    ),
    Key(
        "controller.quorum.election.backoff.max.ms",
        INT,
        1000,
        "Longest pause before another election.",
        importance=HIGH,
        effect=NO_QUORUM,
    ),
    Key(
        "controller.quorum.fetch.timeout.ms",
        INT,
        2000,
        "Maximum time of a voter without a successful fetch from the leader.",
        importance=HIGH,
        effect=NO_QUORUM,
    ),
    Key(
        "controller.quorum.fetch.max.bytes",
        INT,
        1_048_576,
        "Maximum bytes of a voter's fetch.",
        importance=LOW,
        effect=NO_QUORUM,
    ),
    Key(
        "controller.quorum.fetch.snapshot.max.bytes",
        INT,
        1_048_576,
        "Maximum bytes of a voter's snapshot fetch.",
        importance=LOW,
        effect=NO_QUORUM,
    ),
    Key(
        "controller.quorum.request.timeout.ms",
        INT,
        2000,
        "How long a voter waits for an answer.",
        effect=NO_QUORUM,
    ),
    Key(
        "controller.quorum.retry.backoff.ms",
        INT,
        20,
        "Pause before a voter retries.",
        importance=LOW,
        effect=NO_QUORUM,
    ),
    Key(
        "controller.quorum.append.linger.ms",
        INT,
        25,
        "How long the leader collects records before it writes them.",
        effect=NO_QUORUM,
    ),
    Key(
        "controller.quorum.auto.join.enable",
        BOOLEAN,
        False,
        "Whether a new controller becomes a voter automatically.",
        importance=LOW,
        effect=NO_QUORUM,
    ),
    Key(
        "controller.performance.sample.period.ms",
        LONG,
        60_000,
        "How often the controller logs how long its operations took.",
        internal=True,
        effect=harmless("the controller does not log such samples"),
    ),
    Key(
        "controller.performance.always.log.threshold.ms",
        LONG,
        2000,
        "The controller always logs an operation that takes longer.",
        internal=True,
        effect=harmless("the controller does not log such samples"),
    ),
    Key(
        "metadata.log.dir",
        STRING,
        None,
        "Directory of the metadata log. Default: the first log directory.",
        importance=HIGH,
        effect=warned("a standalone broker stores its state in the first log directory, a cluster in ZooKeeper"),
    ),
    Key(
        "metadata.log.segment.bytes",
        INT,
        1_073_741_824,
        "Segment size of the metadata log.",
        importance=HIGH,
        effect=NO_METADATA_LOG,
    ),
    Key(
        "metadata.log.segment.min.bytes",
        INT,
        8_388_608,
        "Minimum segment size of the metadata log, for tests.",
        importance=HIGH,
        effect=NO_METADATA_LOG,
        ours=True,
    ),
    Key(
        "metadata.log.segment.ms",
        LONG,
        604_800_000,
        "Age at which a segment of the metadata log is closed.",
        importance=HIGH,
        effect=NO_METADATA_LOG,
    ),
    Key(
        "metadata.log.max.record.bytes.between.snapshots",
        LONG,
        20_971_520,
        "Bytes of metadata between two snapshots.",
        importance=HIGH,
        effect=NO_METADATA_LOG,
    ),
    Key(
        "metadata.log.max.snapshot.interval.ms",
        LONG,
        3_600_000,
        "Longest time between two snapshots.",
        importance=HIGH,
        effect=NO_METADATA_LOG,
    ),
    Key(
        "metadata.max.retention.bytes",
        LONG,
        104_857_600,
        "Size of the metadata log at which old segments are deleted.",
        importance=HIGH,
        effect=NO_METADATA_LOG,
    ),
    Key(
        "metadata.max.retention.ms",
        LONG,
        604_800_000,
        "Age at which segments of the metadata log are deleted.",
        importance=HIGH,
        effect=NO_METADATA_LOG,
    ),
    Key(
        "metadata.max.idle.interval.ms",
        INT,
        500,
        "How often an idle controller writes a no-op record.",
        importance=LOW,
        effect=NO_METADATA_LOG,
    ),
    Key(
        "internal.metadata.log.segment.bytes",
        INT,
        None,
        "Segment size of the metadata log without a lower limit, for tests.",
        importance=LOW,
        internal=True,
        effect=NO_METADATA_LOG,
    ),
    Key(
        "internal.metadata.max.batch.size.in.bytes",
        INT,
        8_388_608,
        "Largest batch of the metadata log, for tests.",
        importance=LOW,
        internal=True,
        effect=NO_METADATA_LOG,
    ),
    Key(
        "internal.metadata.delete.delay.millis",
        LONG,
        60_000,
        "Time before files of the metadata log are deleted, for tests.",
        importance=LOW,
        internal=True,
        effect=NO_METADATA_LOG,
    ),
    Key(
        "server.max.startup.time.ms",
        LONG,
        LONG_MAX,
        "Maximum time of a start. The broker then stops.",
        internal=True,
        effect=warned("each step of the start has its own time limit"),
    ),
    Key(
        "unclean.leader.election.interval.ms",
        LONG,
        300_000,
        "How often the controller checks for partitions that need an unclean election.",
        internal=True,
        effect=harmless("the controller elects as soon as it is allowed"),
    ),
    Key(
        "unstable.api.versions.enable",
        BOOLEAN,
        False,
        "Whether the broker supports API versions that are still in development.",
        importance=HIGH,
        internal=True,
        effect=warned("the broker serves released versions only"),
    ),
    Key(
        "unstable.feature.versions.enable",
        BOOLEAN,
        False,
        "Whether the broker supports feature levels that are still in development.",
        importance=HIGH,
        internal=True,
        effect=warned("the broker offers released feature levels only"),
    ),
    Key(
        "eligible.leader.replicas.enable",
        BOOLEAN,
        False,
        "Whether eligible replicas may become leader (KIP-966), in Kafka 3.9.",
        importance=HIGH,
        effect=harmless("the controller always stores eligible replicas"),
        ours=True,
    ),
    Key(
        "zookeeper.metadata.migration.enable",
        BOOLEAN,
        False,
        "Whether the cluster moves from ZooKeeper to KRaft.",
        importance=HIGH,
        effect=refused("a cluster cannot move to KRaft"),
        ours=True,
    ),
    Key(
        "zookeeper.metadata.migration.min.batch.size",
        INT,
        200,
        "Records that such a move writes at once.",
        effect=harmless(
            "it applies only to a move to KRaft, which Headrace refuses (zookeeper.metadata.migration.enable)"
        ),
        ours=True,
    ),
)
