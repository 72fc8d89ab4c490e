"""Broker keys of KRaft: its quorum, its metadata log, and switches that came with it."""

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

NO_QUORUM = harmless("brokers form a cluster through ZooKeeper, without a quorum of their own")
NO_METADATA_LOG = harmless("the coordination store keeps the cluster's state, there is no metadata log")


KEYS = (
    Key(
        "process.roles",
        LIST,
        None,
        "Which parts of a KRaft cluster this process is.",
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
        difference="Not required; a listener named here is not opened.",
    ),
    Key(
        "controller.quorum.voters",
        LIST,
        [],
        "Members of the KRaft quorum.",
        importance=HIGH,
        effect=warned(
            "brokers form a cluster through ZooKeeper (zookeeper.connect); without it this broker runs alone"
        ),
    ),
    Key(
        "controller.quorum.bootstrap.servers",
        LIST,
        [],
        "Where the KRaft quorum is found.",
        importance=HIGH,
        effect=warned(
            "brokers form a cluster through ZooKeeper (zookeeper.connect); without it this broker runs alone"
        ),
    ),
    Key(
        "controller.quorum.election.timeout.ms",
        INT,
        1000,
        "How long a voter waits for a leader before it asks for an election.",
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
        "How long a voter may be without a fetch from the leader.",
        importance=HIGH,
        effect=NO_QUORUM,
    ),
    Key(
        "controller.quorum.fetch.max.bytes",
        INT,
        1_048_576,
        "Bytes that a voter asks for in a fetch.",
        importance=LOW,
        effect=NO_QUORUM,
    ),
    Key(
        "controller.quorum.fetch.snapshot.max.bytes",
        INT,
        1_048_576,
        "Bytes that a voter asks for of a snapshot.",
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
        "Pause before a voter asks again.",
        importance=LOW,
        effect=NO_QUORUM,
    ),
    Key(
        "controller.quorum.append.linger.ms",
        INT,
        25,
        "How long the leader gathers records before it writes them.",
        effect=NO_QUORUM,
    ),
    Key(
        "controller.quorum.auto.join.enable",
        BOOLEAN,
        False,
        "Whether a new controller becomes a voter by itself.",
        importance=LOW,
        effect=NO_QUORUM,
    ),
    Key(
        "controller.performance.sample.period.ms",
        LONG,
        60_000,
        "How often the controller logs how long its operations took.",
        internal=True,
        effect=harmless("the controller does not log such samples; it changes nothing but that log"),
    ),
    Key(
        "controller.performance.always.log.threshold.ms",
        LONG,
        2000,
        "An operation of the controller that takes longer is always logged.",
        internal=True,
        effect=harmless("the controller does not log such samples; it changes nothing but that log"),
    ),
    Key(
        "metadata.log.dir",
        STRING,
        None,
        "The directory of the metadata log; unset, the first log directory.",
        importance=HIGH,
        effect=warned(
            "a broker that runs alone keeps its state in the first log directory, a cluster keeps it in ZooKeeper"
        ),
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
        "Least segment size of the metadata log, for tests.",
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
        "How often an idle controller writes a record of its own.",
        importance=LOW,
        effect=NO_METADATA_LOG,
    ),
    Key(
        "internal.metadata.log.segment.bytes",
        INT,
        None,
        "Segment size of the metadata log without a lower bound, for tests.",
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
        "How long the broker may take to start before it gives up.",
        internal=True,
        effect=warned("each step of the start has a time limit of its own"),
    ),
    Key(
        "unclean.leader.election.interval.ms",
        LONG,
        300_000,
        "How often the controller looks for partitions that need an unclean election.",
        internal=True,
        effect=harmless("the controller elects as soon as it may"),
    ),
    Key(
        "unstable.api.versions.enable",
        BOOLEAN,
        False,
        "Whether versions of requests that are still in development are served.",
        importance=HIGH,
        internal=True,
        effect=warned("the broker serves released versions only"),
    ),
    Key(
        "unstable.feature.versions.enable",
        BOOLEAN,
        False,
        "Whether feature levels that are still in development are offered.",
        importance=HIGH,
        internal=True,
        effect=warned("the broker offers released feature levels only"),
    ),
    Key(
        "eligible.leader.replicas.enable",
        BOOLEAN,
        False,
        "Whether replicas that were last in sync may lead (KIP-966), in Kafka 3.9.",
        importance=HIGH,
        effect=harmless("eligible replicas are kept in every case"),
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
        effect=harmless("it applies to a move to KRaft only, which is refused (zookeeper.metadata.migration.enable)"),
        ours=True,
    ),
)
