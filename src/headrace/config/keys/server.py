"""Broker keys of the broker itself: identity, topics, quotas, metrics."""

from __future__ import annotations

from headrace.config.effect import harmless, refused, warned
from headrace.config.key import Importance, Key, Type, Update
from headrace.config.rules import at_least

BOOLEAN = Type.BOOLEAN
STRING = Type.STRING
INT = Type.INT
LONG = Type.LONG
LIST = Type.LIST
CLASS = Type.CLASS
HIGH = Importance.HIGH
LOW = Importance.LOW
CLUSTER_WIDE = Update.CLUSTER_WIDE

KEYS = (
    Key(
        "broker.id",
        INT,
        -1,
        "Id of the broker in its cluster. With -1 the broker uses the id in its log directory; if there is none, it "
        "gets a generated id.",
        importance=HIGH,
    ),
    Key(
        "node.id",
        INT,
        None,
        "The newer name of `broker.id`. Set one of the two.",
        at_least(0),
        importance=HIGH,
        difference="Not required.",
    ),
    Key(
        "auto.create.topics.enable",
        BOOLEAN,
        True,
        "Whether a client's request for an unknown topic creates it.",
        importance=HIGH,
    ),
    Key("delete.topic.enable", BOOLEAN, True, "Whether topics can be deleted.", importance=HIGH),
    Key("num.partitions", INT, 1, "Number of partitions of a new topic if the request gives none.", at_least(1)),
    Key(
        "create.topic.policy.class.name",
        CLASS,
        None,
        "Class that can reject new topics.",
        importance=LOW,
        effect=refused("Headrace does not support policy classes"),
    ),
    Key(
        "alter.config.policy.class.name",
        CLASS,
        None,
        "Class that can reject config changes.",
        importance=LOW,
        effect=refused("Headrace does not support policy classes"),
    ),
    Key(
        "client.quota.callback.class",
        CLASS,
        None,
        "Class that chooses the quota of a client.",
        importance=LOW,
        effect=refused("quotas use Kafka's default precedence, without a class"),
    ),
    Key(
        "config.providers",
        LIST,
        [],
        "Names of providers that replace `${…}` in values.",
        importance=LOW,
        update=CLUSTER_WIDE,
        effect=refused("Headrace does not support configuration providers and uses values literally"),
    ),
    Key("quota.window.num", INT, 11, "Samples kept to measure client quotas.", at_least(1), importance=LOW),
    Key("quota.window.size.seconds", INT, 1, "Length of such a sample.", at_least(1), importance=LOW),
    Key(
        "controller.quota.window.num",
        INT,
        11,
        "Samples kept to measure the controller-mutation quota.",
        at_least(1),
        importance=LOW,
    ),
    Key("controller.quota.window.size.seconds", INT, 1, "Length of such a sample.", at_least(1), importance=LOW),
    Key(
        "metric.reporters",
        LIST,
        ["org.apache.kafka.common.metrics.JmxReporter"],
        "Classes that report metrics.",
        importance=LOW,
        update=CLUSTER_WIDE,
        effect=warned("Headrace loads no reporter classes; metrics.listen serves the metrics"),
    ),
    Key(
        "metrics.num.samples",
        INT,
        2,
        "Samples kept for a rate.",
        at_least(1),
        importance=LOW,
        effect=harmless("metrics are running totals; the program that reads them computes rates"),
    ),
    Key(
        "metrics.sample.window.ms",
        LONG,
        30_000,
        "Length of such a sample.",
        at_least(1),
        importance=LOW,
        effect=harmless("metrics are running totals; the program that reads them computes rates"),
    ),
    Key(
        "metrics.recording.level",
        STRING,
        "INFO",
        "Level of detail of the metrics.",
        importance=LOW,
        effect=harmless("the broker always records every metric"),
    ),
    Key(
        "kafka.metrics.reporters",
        LIST,
        [],
        "Classes that report metrics of the older kind.",
        importance=LOW,
        effect=warned("Headrace loads no reporter classes; metrics.listen serves the metrics"),
    ),
    Key(
        "kafka.metrics.polling.interval.secs",
        INT,
        10,
        "How often these reporters are called.",
        at_least(1),
        importance=LOW,
        effect=harmless("Headrace loads no reporter classes"),
    ),
    Key(
        "telemetry.max.bytes",
        INT,
        1_048_576,
        "Maximum bytes of metrics in one push of a client.",
        at_least(1),
        importance=LOW,
    ),
    Key(
        "broker.heartbeat.interval.ms",
        INT,
        2000,
        "Time between two heartbeats of a broker to the KRaft controller.",
        effect=harmless("the session with the coordination store has its own heartbeat"),
    ),
    Key(
        "broker.session.timeout.ms",
        INT,
        9000,
        "Time without a heartbeat after which the controller takes a process of a unit (`broker.processes`) for dead. "
        "A killed process is noticed at once.",
        difference="With `zookeeper.connect`, `zookeeper.session.timeout.ms` decides instead.",
    ),
    Key(
        "initial.broker.registration.timeout.ms",
        INT,
        60_000,
        "How long a starting broker tries to register before it stops.",
        effect=warned("zookeeper.connection.timeout.ms decides how long a broker tries to register"),
    ),
)
