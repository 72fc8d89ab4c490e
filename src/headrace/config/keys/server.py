"""Broker keys: the broker itself: identity, topics, quotas, metrics."""

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
        "The broker's number in its cluster. -1 takes the one stored in the log directory, else one is given.",
        importance=HIGH,
    ),
    Key(
        "node.id",
        INT,
        None,
        "The newer name of `broker.id`; whichever is set gives both.",
        at_least(0),
        importance=HIGH,
        difference="Not required.",
    ),
    Key(
        "auto.create.topics.enable",
        BOOLEAN,
        True,
        "Whether a client's question for an unknown topic may create it.",
        importance=HIGH,
    ),
    Key("delete.topic.enable", BOOLEAN, True, "Whether topics can be deleted.", importance=HIGH),
    Key("num.partitions", INT, 1, "Partitions of topics created without saying how many.", at_least(1)),
    Key(
        "create.topic.policy.class.name",
        CLASS,
        None,
        "Class that may refuse new topics.",
        importance=LOW,
        effect=refused("policy classes are not offered"),
    ),
    Key(
        "alter.config.policy.class.name",
        CLASS,
        None,
        "Class that may refuse config changes.",
        importance=LOW,
        effect=refused("policy classes are not offered"),
    ),
    Key(
        "client.quota.callback.class",
        CLASS,
        None,
        "Class that decides which quota a client falls under.",
        importance=LOW,
        effect=refused("quotas follow Kafka's own precedence, without a class"),
    ),
    Key(
        "config.providers",
        LIST,
        [],
        "Names of providers that fill in `${…}` in values.",
        importance=LOW,
        update=CLUSTER_WIDE,
        effect=refused("configuration providers are not offered, values are taken as they are written"),
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
        effect=warned("reporter classes are not loaded, metrics.listen serves the metrics"),
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
        "How much is measured.",
        importance=LOW,
        effect=harmless("the broker always records every metric"),
    ),
    Key(
        "kafka.metrics.reporters",
        LIST,
        [],
        "Classes that report the older kind of metrics.",
        importance=LOW,
        effect=warned("reporter classes are not loaded, metrics.listen serves the metrics"),
    ),
    Key(
        "kafka.metrics.polling.interval.secs",
        INT,
        10,
        "How often those are asked.",
        at_least(1),
        importance=LOW,
        effect=harmless("reporter classes are not loaded, so there is nothing to poll"),
    ),
    Key(
        "telemetry.max.bytes",
        INT,
        1_048_576,
        "The most bytes of metrics a client may push at once.",
        at_least(1),
        importance=LOW,
        effect=harmless("the broker accepts no metrics from clients"),
    ),
    Key(
        "broker.heartbeat.interval.ms",
        INT,
        2000,
        "Time between a broker's signs of life to the KRaft controller.",
        effect=harmless("the coordination session has a heartbeat of its own"),
    ),
    Key(
        "broker.session.timeout.ms",
        INT,
        9000,
        "How long a KRaft broker lives without a sign.",
        effect=warned("zookeeper.session.timeout.ms decides when a silent broker has left the cluster"),
    ),
    Key(
        "initial.broker.registration.timeout.ms",
        INT,
        60_000,
        "How long a broker tries to register at its start before it gives up.",
        effect=warned("zookeeper.connection.timeout.ms decides how long a broker tries to register"),
    ),
)
